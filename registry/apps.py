"""The Django app of the control plane."""

from django.apps import AppConfig


class RegistryConfig(AppConfig):
    name = "registry"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Models"

    def ready(self) -> None:
        from registry import checks  # noqa: F401  (registers the system checks)
