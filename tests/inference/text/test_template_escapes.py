"""A template of a stranger's model file reaches nothing beyond the conversation it is given."""

from __future__ import annotations

import re

import pytest

from inference.text.chat_template import ChatTemplate
from inference.text.errors import TemplateError

USER = [{"role": "user", "content": "hi"}]
# What a template would show that had got out: objects of Python, files, the environment, a process.
LEAKED = re.compile(
    r"<class|<function|<module|<built-in|object at 0x|root:|uid=|/bin/|__main__|subclass"
)

ESCAPES = (
    "{{ ''.__class__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__']['__base__'] }}",
    "{{ ''|attr('__class__')|attr('__mro__') }}",
    "{{ ''|attr('\\x5f\\x5fclass\\x5f\\x5f') }}",
    "{{ ().__class__.__bases__[0].__subclasses__()[0]('/etc/passwd').read() }}",
    "{{ [].__class__.__init__.__globals__ }}",
    "{{ {}.__class__.__base__ }}",
    "{{ (1).__class__ }}",
    "{{ messages.__class__ }}",
    "{{ messages[0].__class__ }}",
    "{{ messages[0].__init__.__globals__['__builtins__'] }}",
    "{{ messages.append.__self__ }}",
    "{{ messages.append.__globals__ }}",
    "{{ self.__init__.__globals__.__builtins__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ self.__dict__ }}",
    "{{ config }}{{ config.items() }}",
    "{{ request.application.__globals__ }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ lipsum.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ joiner.__init__.__globals__.os.environ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ namespace(x=1).__class__ }}",
    "{{ range.__class__ }}",
    "{{ range(1).__iter__.__self__.__class__ }}",
    "{{ dict.__base__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ raise_exception.__closure__ }}",
    "{{ strftime_now.__self__ }}",
    "{{ strftime_now.__func__.__globals__ }}",
    "{{ strftime_now.__self__._environment }}",
    "{{ (''|tojson).__class__ }}",
    "{{ messages|tojson(separators=[''.__class__]) }}",
    "{{ messages|map(attribute='__class__')|list }}",
    "{{ messages|map('attr', '__class__')|list }}",
    "{{ messages|groupby('__class__') }}",
    "{{ messages|sort(attribute='__class__') }}",
    "{{ messages|selectattr('__class__')|list }}",
    "{{ '%s'|format(messages.__class__) }}",
    "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "{{ '{0.__init__.__globals__}'.format(raise_exception) }}",
    "{{ '{x.__class__}'.format_map({'x': messages}) }}",
    "{{ debug() }}",
    "{% set x = __import__('os') %}{{ x }}",
    "{{ eval('1') }}{{ exec('1') }}{{ open('/etc/passwd').read() }}",
    "{{ get_flashed_messages.__globals__ }}{{ url_for.__globals__ }}",
    "{{ caller.__globals__ }}",
    "{{ loop.__class__ }}{% for m in messages %}{{ loop.__class__ }}{{ loop._iterable }}{% endfor %}",
    "{% import 'os' as os %}{{ os.environ }}",
    "{% from 'os' import environ %}{{ environ }}",
    "{% include '/etc/passwd' %}",
    "{% include '../../../../etc/passwd' ignore missing %}",
    "{% extends '/etc/passwd' %}",
    "{% include messages[0].content %}",
    "{% macro m() %}{{ m.__globals__ }}{{ varargs.__class__ }}{% endmacro %}{{ m() }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}{{ ns.__class__.__mro__ }}",
    "{% filter attr('__class__') %}x{% endfilter %}",
    "{% do messages.__class__ %}",
)  # fmt: skip


@pytest.mark.parametrize("source", ESCAPES)
def test_it_stays_inside(source: str) -> None:
    """Refused, or rendered to nothing that was not in the conversation."""
    try:
        text = ChatTemplate(source).render(USER)
    except TemplateError as refusal:
        text = str(refusal)
        assert len(text) < 2000
    assert not LEAKED.search(text), text


@pytest.mark.parametrize(
    "content", ["{{ 7 * 191 }}", "{% include '/etc/passwd' %}", "{# x #}", "{{ bos_token }}"]
)
def test_messages_are_no_templates(content: str) -> None:
    """What a caller writes reaches the model as it is, through every variable a caller fills."""
    template = ChatTemplate(
        "{{ messages[0].content }}|{{ messages[0].role }}|{{ reasoning_effort }}", bos_token="BOS"
    )
    text = template.render([{"role": "user", "content": content}], reasoning_effort=content)
    assert text == f"{content}|user|{content}"


def test_a_refusal_in_the_templates_words_is_one_short_line() -> None:
    """It is shown in answers, logs, the admin site and on the terminal."""
    for words, shown in (
        ("'a' * 3000000", "a" * 500),
        (r"'\x1b[31m red\r\nnext \u202e line'", "\ufffd[31m red next \ufffd line"),
        ("'Roles must alternate.'", "Roles must alternate."),
    ):
        with pytest.raises(TemplateError) as refusal:
            ChatTemplate("{{ raise_exception(" + words + ") }}").render(USER)
        assert refusal.value.reason == shown
        assert str(refusal.value) == f"chat template: {shown.rstrip('.')}."
