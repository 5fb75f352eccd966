"""A hostile template costs its own process a moment, and the server nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from inference.text.chat_template import ChatTemplate
from inference.text.errors import TemplateError, TemplateLimitExceeded

USER = [{"role": "user", "content": "hi"}]
# Lists that each hold the one before twice: small in memory, 2**40 long for all who walk them.
TREES = (
    "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(40) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)
HOSTILE = {
    "nested loops": "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
    "doubling": "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(40) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "format filter": '{{ "%0999999999d"|format(1) }}',
    "format method": "{{ '{:>999999999}'.format(1) }}",
    "range": "{{ range(10**9) }}",
    "repeated text": "{{ 'a' * 10**9 }}",
    "repeated list": "{{ ([1] * 10**8)|tojson }}",
    "compared lists": "{% if messages %}{{ [messages] * 100000000 == [messages] * 100000000 }}{% endif %}",
    "compared while compiling": "{{ [1] * 100000000 == [1] * 100000000 }}",
    "power": "{{ 2 ** 100000 }}",
    "recursion": "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "parentheses": "{{ " + "(" * 6000 + "1" + ")" * 6000 + " }}",
    "brackets": "{{ " + "[" * 9000 + "]" * 9000 + " }}",
    "blocks": "{% if 1 %}" * 6000 + "{% endif %}" * 6000,
    "negations": "{{ " + "not " * 30000 + "1 }}",
    "sums": "{{ 1" + "+1" * 60000 + " }}",
    "branches": "{% if 0 %}" + "{% elif 0 %}" * 9000 + "{% endif %}",
    "compared trees": TREES + "{{ ns.x == ns.y }}",
    "printed tree": TREES + "{{ ns.x }}",
    "tree as JSON": TREES + "{{ ns.x|tojson }}",
    "growing conversation": "{% for i in range(60) %}{% set x = messages.extend(messages) %}{% endfor %}",
    "joined": "{{ 'x'.join([1] * 100000000) }}",
    "replaced": "{% set x = 'a' * 9999 %}{% set y = x|replace('a', x) %}{{ y|replace('a', y) }}",
    "time": "{{ strftime_now('%0999999999Y') }}",
    "indented JSON": "{{ [1]|tojson(indent=999999999) }}",
    "long searches": "{% set x = 'a' * 500000 %}{% for a in range(9999) %}{% for b in range(99) %}"
    "{% set q = x.count('b') %}{% endfor %}{% endfor %}",
    "long source": "{#" + "a" * (1 << 17) + "#}",
    "inclusion": "{% include '/etc/passwd' %}",
    "underscores": "{{ messages.__class__.__mro__ }}",
}

# All in a process of its own, so that what is measured is its children's memory and nobody else's.
MEASURE = """
import json, resource, sys, time
from inference.text.chat_template import ChatTemplate
from inference.text.errors import TemplateError
found = {}
for name, source in json.load(sys.stdin).items():
    def used():
        use = resource.getrusage(resource.RUSAGE_CHILDREN)
        return use.ru_utime + use.ru_stime
    before, text = used(), None
    try:
        template = ChatTemplate(source)
        text = template.render([{"role": "user", "content": "hi"}])[:50]
    except TemplateError as error:
        reason = error.reason
    template = None
    found[name] = text, used() - before
json.dump([found, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss], sys.stdout)
"""


def test_hostile_templates_are_refused_within_their_limits() -> None:
    """Processor time: 80 ms to compile and 50 ms to render, beside what starting Python takes."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        input=json.dumps(HOSTILE).encode(),
        capture_output=True,
        check=True,
    )
    found, max_rss_kib = json.loads(done.stdout)
    assert found.keys() == HOSTILE.keys()
    assert not {name: text for name, (text, _) in found.items() if text is not None}
    assert max(cpu_s for _, cpu_s in found.values()) < 0.5
    assert max_rss_kib < 80 << 10


def test_a_template_goes_on_after_a_conversation_that_was_too_much() -> None:
    source = "{% if messages[0].content == 'bad' %}" + TREES + "{{ ns.x == ns.y }}{% endif %}fine"
    template = ChatTemplate(source)
    with pytest.raises(
        TemplateLimitExceeded, match="too many steps, too much time or too much memory"
    ):
        template.render([{"role": "user", "content": "bad"}])
    assert template.render(USER) == "fine"


def test_limits_grow_with_the_conversation() -> None:
    """A long conversation is no attack: four thousand messages, or a megabyte in one."""
    template = ChatTemplate(
        "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}\n{% endfor %}"
    )
    many = [{"role": "user", "content": f"message {i}"} for i in range(4096)]
    assert template.render(many).count("\n") == 4096
    assert len(template.render([{"role": "user", "content": "word " * 200_000}])) > 999_000
    assert len(template.render(USER)) == 9
    assert len(template.render([{"role": "user", "content": "字" * 6_000_000}])) > 6_000_000


def test_a_prompt_far_longer_than_its_conversation_is_refused() -> None:
    with pytest.raises(TemplateError, match="made a prompt of"):
        ChatTemplate("{% for i in range(20) %}{{ 'a' * 60000 }}{% endfor %}").render(USER)
