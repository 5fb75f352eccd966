"""System checks of settings that only make sense together, and of names that mean nothing.

Ids are stable: registry.W001 to W004. Knows nothing about single settings; the environ schema has
checked those.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register


@register()
def check_kv_memory(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    context_len = settings.PANTHEON["PANTHEON_CONTEXT_LEN"]
    kv_tokens = settings.PANTHEON["PANTHEON_KV_TOKENS"]
    if not kv_tokens or kv_tokens >= context_len:
        return []
    return [
        Warning(
            f"PANTHEON_KV_TOKENS ({kv_tokens}) is less than PANTHEON_CONTEXT_LEN ({context_len});"
            f" replicas get KV memory for {context_len} tokens all the same.",
            hint=f"Set PANTHEON_KV_TOKENS to {context_len} or more, or to 0 for the default.",
            id="registry.W002",
        )
    ]


@register()
def check_model_dirs(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [
        Warning(
            f"The model folder {folder} of PANTHEON_MODEL_DIRS does not exist.",
            hint="Create it or take it out of PANTHEON_MODEL_DIRS.",
            id="registry.W001",
        )
        for folder in settings.PANTHEON["PANTHEON_MODEL_DIRS"]
        if not Path(folder).is_dir()
    ]


@register()
def check_variable_names(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [
        Warning(
            f"The environment variable {name} is set, but there is no such setting.",
            hint=f"Did you mean {closest}?" if closest else "docs/settings.md lists them all.",
            id="registry.W003",
        )
        for name, closest in settings.UNKNOWN_VARIABLES.items()
    ]


@register()
def check_variables_without_effect(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    return [
        Warning(
            f"The environment variable {name} is set to a value that this server cannot follow.",
            hint=why,
            id="registry.W004",
        )
        for name, why in settings.VARIABLES_WITHOUT_EFFECT.items()
    ]
