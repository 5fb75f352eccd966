"""Django settings, from the environ schema in `env.py`. Names of our own start with PANTHEON_."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from django.templatetags.static import static

from pantheon_site import env

ENVIRON = env.environment()
_values = env.read(ENVIRON)
# Misspelt ones would be ignored; a system check names them.
UNKNOWN_VARIABLES = env.unknown_names(ENVIRON)
VARIABLES_WITHOUT_EFFECT = env.without_effect(ENVIRON)

BASE_DIR = env.ROOT
DATA_DIR: Path = _values["PANTHEON_DATA_DIR"]
DATA_DIR.mkdir(parents=True, exist_ok=True)


def _kept_secret(path: Path) -> str:
    """The secret in the file, made at first use; readable by its owner alone."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path.read_text()


SECRET_KEY = _values["DJANGO_SECRET_KEY"] or _kept_secret(DATA_DIR / "secret_key")
DEBUG = _values["DJANGO_DEBUG"]
ALLOWED_HOSTS = _values["DJANGO_ALLOWED_HOSTS"]
CSRF_TRUSTED_ORIGINS = _values["DJANGO_CSRF_TRUSTED_ORIGINS"]

PANTHEON: dict[str, Any] = {k: v for k, v in _values.items() if k.startswith("PANTHEON_")}
MODELS_DIR = DATA_DIR / "models"
MODEL_DIRS: list[Path] = [MODELS_DIR, *PANTHEON["PANTHEON_MODEL_DIRS"]]
# What the control plane asks for the host memory left: a function without arguments, in bytes.
HOST_MEMORY_PROBE = "accel.host.available_bytes"

INSTALLED_APPS = [
    "daphne",
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "registry",
    "inference",
]

# Every one of these is async-capable: a request of the API stays on the event loop from end to end.
MIDDLEWARE = [
    "inference.api.middleware.ApiMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "pantheon_site.urls"
ASGI_APPLICATION = "pantheon_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "pantheon.sqlite3",
        # IMMEDIATE: a transaction that upgrades from read to write fails at once whatever the timeout.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=67108864;"
            ),
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "admin:login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"

DATA_UPLOAD_MAX_MEMORY_SIZE = PANTHEON["PANTHEON_MAX_BODY_BYTES"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
if _values["DJANGO_HTTPS"]:
    # The proxy must set this header itself, whatever a client sent.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
# Other hosts of the same domain are not this server's to bind to https.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# Inline, so that no browser asks for /favicon.ico: a die with its pins.
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M5 0v16M8 0v16M11 0v16M0 5h16M0 8h16M0 11h16' stroke='%239333ea'/%3E"
    "%3Crect x='3' y='3' width='10' height='10' rx='2' fill='%239333ea'/%3E%3C/svg%3E"
)

UNFOLD = {
    "SITE_TITLE": "Pantheon",
    "SITE_HEADER": "Pantheon",
    "SITE_SYMBOL": "memory",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _ICON}],
    "STYLES": [lambda _request: static("registry/admin.css")],
    "SHOW_HISTORY": True,
    "LOGIN": {"form": "registry.login_form.LoginForm"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        name: {"level": _values["DJANGO_LOG_LEVEL"]}
        for name in ("pantheon_site", "inference", "registry", "accel", "django.request")
    },
}
