"""docs/settings.md and .env.example, written from the environ schema: `make docs`.

Owns their form. A test compares the files with what this writes.
"""

from __future__ import annotations

from pathlib import Path

from pantheon_site.env import ROOT, SETTINGS, Setting

SETTINGS_PAGE = ROOT / "docs" / "settings.md"
ENV_EXAMPLE = ROOT / ".env.example"


def _shown_default(setting: Setting) -> str:
    return setting.default.replace(f"{ROOT}/", "") or "(empty)"


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "Environment variables, or lines of a `.env` file in the checkout (see `.env.example`). A malformed",
        "value stops the start with a sentence that names it. `make docs` writes this page from",
        "`pantheon_site/env.py`.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for setting in SETTINGS:
        also = (
            f" Also read as {', '.join(f'`{a}`' for a in setting.aliases)}."
            if setting.aliases
            else ""
        )
        lines.append(f"| `{setting.name}` | `{_shown_default(setting)}` | {setting.help}{also} |")
    return "\n".join(lines) + "\n"


def env_example() -> str:
    lines = ["# Copy to .env and uncomment what you change. `make docs` writes this file.", ""]
    for setting in SETTINGS:
        lines += [
            f"# {setting.help}",
            f"# {setting.name}={setting.default.replace(f'{ROOT}/', '')}",
            "",
        ]
    return "\n".join(lines)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    write(SETTINGS_PAGE, settings_page())
    write(ENV_EXAMPLE, env_example())
