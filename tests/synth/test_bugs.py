"""Each kind of bug changes exactly what it says, and nothing else of the file."""

import ast
from pathlib import Path

import pytest

from swe_plugin.synth.bugs import KINDS, find_bugs

pytestmark = pytest.mark.slow


def results(kind, code, function="def f(a, b=1, *, c=True):\n"):
    """The changed lines that a kind makes of a function with this body."""
    text = function + "".join(f"    {line}\n" for line in code.splitlines())
    found = [bug for bug in find_bugs("m.py", text, [kind]) if bug.changes_something()]
    return [bug.text.splitlines()[bug.line - 1].strip() for bug in found]


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        ("comparison", "return a <  b", ["return a <=  b"]),
        ("comparison", "return a is not None", ["return a is None"]),
        ("comparison", "return a not  in b", ["return a in b"]),
        ("comparison", "return 0 <= a < b", ["return 0 < a < b", "return 0 <= a <= b"]),
        ("boolean", "return a and(b) and c", ["return a or(b) and c", "return a and(b) or c"]),
        ("arithmetic", "return a // b", ["return a % b"]),
        ("arithmetic", "return 'x' + a", []),
        ("arithmetic", "return a - -b", ["return a + -b"]),
        ("off_by_one", "return a[1:]", ["return a[2:]", "return a[0:]"]),
        ("off_by_one", "return 'n' if a == 0 else b", ["return 'n' if a == 1 else b"]),
        ("off_by_one", "return 5", []),
        ("dropped_not", "return not a", ["return a"]),
        ("dropped_not", "return not(a)", ["return (a)"]),
        ("flipped_flag", "return g(a, x=True)", ["return g(a, x=False)"]),
        ("slice_bound", "return a[1:b]", ["return a[:b]", "return a[1:]"]),
        ("swapped_arguments", "return g(a, b )", ["return g(b, a )"]),
        ("swapped_arguments", "return g(a, a)", []),
        ("swapped_arguments", "return g(*a, b)", []),
        ("dropped_keyword", "return g(a, x=1, y=2)", ["return g(a, y=2)", "return g(a, x=1)"]),
        ("dropped_keyword", "return g(x=1)", []),
        ("wrong_function", "return min(a).lstrip()", ["return min(a).rstrip()", "return max(a).lstrip()"]),
        ("wrong_name", "return a", ["return b", "return c"]),
        ("wrong_exception", "raise ValueError(a)", ["raise TypeError(a)"]),
        ("negated_condition", "if a: pass", ["if not a: pass"]),
        ("negated_condition", "while a < b: pass", ["while not (a < b): pass"]),
        ("negated_condition", "if not a: pass", []),
        ("dead_branch", "if a: return b", ["if False: return b"]),
        ("swapped_branches", "return a if c else b", ["return b if c else a"]),
        ("dropped_raise", "raise ValueError(a)", ["pass"]),
        ("return_none", "return a", ["return None"]),
        ("return_none", "return None", []),
        ("dropped_statement", "a.append(b)", ["pass"]),
        ("dropped_statement", "a.x = b", ["pass"]),
        ("dropped_statement", "a = b", []),
        ("loop_control", "for a in b: break", ["for a in b: continue"]),
    ],
)
def test_a_kind_does_what_it_says(kind, code, expected):
    assert results(kind, code) == expected


def test_defaults_change_in_the_signature():
    assert results("changed_default", "return a") == ["def f(a, b=2, *, c=True):", "def f(a, b=1, *, c=False):"]


def test_an_except_clause_gets_another_error():
    text = "def f(a):\n    try:\n        return a[0]\n    except KeyError:\n        return 1\n"
    (bug,) = find_bugs("m.py", text, ["wrong_exception"])
    assert bug.text == text.replace("KeyError", "IndexError")


def test_every_kind_is_tested_here():
    marks = [mark for mark in test_a_kind_does_what_it_says.pytestmark if mark.name == "parametrize"]
    tested = {case[0] for case in marks[0].args[1]}
    assert tested | {"changed_default"} == set(KINDS)
    assert len(KINDS) >= 8


ODD = (
    'class A:\r\n    @property\r\n    def größe(self, ä, b):  # é < è\r\n        """a < b and not c."""\r\n'
    "        if not ä and (b) <(\r\n            1):  # keep\r\n\t\treturn f'{ä < b}' , \\\r\n"
    "                    b[ 1 : ]\x0c\r\n        return \"<\" if b>1 else 'and'"
)


@pytest.mark.parametrize(
    "text", [ODD.replace("\t\t", "            "), Path(ast.__file__).read_text()], ids=["odd", "ast"]
)
def test_all_other_bytes_stay(text):
    found = list(find_bugs("m.py", text))
    assert len(found) > 5
    for bug in found:
        start, stop = bug.span
        data, before = bug.text.encode(), text.encode()
        assert data[:start] == before[:start]
        assert data[start + len(bug.after.encode()) :] == before[stop:]
        assert bug.before != bug.after
    real = [bug for bug in found[:: max(len(found) // 40, 1)] if bug.changes_something()]
    assert len(real) > 3
    assert len({bug.digest for bug in found}) == len(found)


def test_what_only_tools_read_is_left_alone():
    text = (
        "from typing import TYPE_CHECKING\nx = 1 < 2\n\n@dec(1 < 2)\ndef f(a: int = not True) -> 'a < b':\n"
        '    """a < b."""\n    if TYPE_CHECKING:\n        import y\n    return f"{a < 1}"\n'
    )
    kinds = [bug.kind for bug in find_bugs("m.py", text)]
    assert sorted(kinds) == ["dropped_not", "flipped_flag", "return_none"]


def test_methods_and_inner_functions_have_their_names_and_first_lines():
    text = (
        "class A:\n    def m(self):\n        @deco\n        def inner(x):\n            return x\n        return inner\n"
    )
    found = [(bug.function, bug.first_line) for bug in find_bugs("m.py", text, ["return_none"])]
    assert found == [("A.m.inner", 3), ("A.m", 2)]


def test_a_file_that_is_no_python_has_no_bugs():
    assert list(find_bugs("m.py", "print 'no'")) == []
