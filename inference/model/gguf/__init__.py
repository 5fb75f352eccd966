"""The bounded reader of GGUF model files. Knows the format; knows nothing of models or vocabularies."""

from inference.model.gguf.file import GGUFFile, read_gguf
from inference.model.gguf.metadata import Value

__all__ = ["GGUFFile", "Value", "read_gguf"]
