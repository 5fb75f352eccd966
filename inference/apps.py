"""The Django app of the engine: commands and the API live here, no database tables do."""

from django.apps import AppConfig


class InferenceConfig(AppConfig):
    name = "inference"
