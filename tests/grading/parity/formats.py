"""Logs in the format of each runner that swebench reads, written from the format, and what each of them says.

A format takes tests with their outcomes and gives the log and the statuses that it holds. Reporters that name only what
fails hold only that.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

Outcome = tuple[str, str]
Written = tuple[str, dict[str, str]]
P, F, S, E, X = "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL"
NOISE = ("", "+ cd /testbed", "Compiling 12 modules", "warning: something old", "~~ 3.2.1 ~~")
WORDS = ["adds", "keeps", "order", "returns", "empty", "input", "when", "unicode", "naïve", "table", "with", "header"]


@dataclass(frozen=True)
class Format:
    """One way to write a log: the outcomes that it knows, how it is written, and what parsers that choose look at."""

    outcomes: Sequence[str]
    write: Callable[[Sequence[Outcome]], Written]
    name: Callable[[random.Random, int], str]
    instance_id: str = "acme__calc-1"
    version: str = "1.0"

    def log(self, seed: int) -> Written:
        """The log of a run of 3 to 14 tests, every outcome among them, marks and noise around the tests' output."""
        rng = random.Random(f"{seed}/{self.instance_id}/{self.version}/{sorted(self.outcomes)}")
        outcomes = [*self.outcomes, *(rng.choice(self.outcomes) for _ in range(rng.randint(2, 10)))]
        rng.shuffle(outcomes)
        text, statuses = self.write([(self.name(rng, n), outcome) for n, outcome in enumerate(outcomes)])
        before, after = rng.choice(NOISE), rng.choice(NOISE)
        marks = "+ : '>>>>> Start Test Output'", "+ : '>>>>> End Test Output'"
        return f"{before}\n{marks[0]}\n{text}\n{marks[1]}\n{after}\n", statuses


def phrase(rng: random.Random, number: int) -> str:
    return f"{' '.join(rng.sample(WORDS, 3))} {number}"


def node_id(rng: random.Random, number: int) -> str:
    cls = rng.choice(("", "TestTable::"))
    bracket = rng.choice(("", "", "[one-two]", "[/etc/x/y.txt]", "[a-1.5-None]"))
    return f"tests/test_{rng.choice(WORDS)}.py::{cls}test_{number}{bracket}"


def symbol(rng: random.Random, number: int) -> str:
    return f"pkg.{rng.choice('ABC')}{number}"


def method(rng: random.Random, number: int) -> str:
    return f"org.acme.Table{number} > {rng.choice(WORDS)}{number}"


def lines(templates: Mapping[str, str], said: str = "{name}", name=phrase, **chosen: str) -> Format:
    """One line per test."""

    def write(tests: Sequence[Outcome]) -> Written:
        text = [templates[outcome].format(name=name, n=n) for n, (name, outcome) in enumerate(tests, 1)]
        return "\n".join(text), {said.format(name=name): outcome for name, outcome in tests}

    return Format([*templates], write, name, **chosen)


def failures(template: str, said: str = "{name}", ran: str = "", **chosen: str) -> Format:
    """Only what fails, one entry per test; `ran` proves that there was a run."""

    def write(tests: Sequence[Outcome]) -> Written:
        bad = [name for name, outcome in tests if outcome == F]
        text = "".join(template.format(name=name, n=n) for n, name in enumerate(bad, 1))
        return f"{text}{ran}", {said.format(name=name): F for name in bad}

    return Format((P, F), write, phrase, **chosen)


def after(head: str, form: Format, said: str) -> Format:
    """`form` behind a line that belongs to the name."""

    def write(tests: Sequence[Outcome]) -> Written:
        text, _ = form.write(tests)
        return f"{head}\n{text}", {said.format(name=name): outcome for name, outcome in tests}

    return Format(form.outcomes, write, form.name, form.instance_id, form.version)


def _pytest_said(name: str, outcome: str) -> str:
    return f"{outcome} {name}" + {F: " - AssertionError: 1 - 2", E: " - ValueError: no", X: " - known"}.get(outcome, "")


def _pytest(tests: Sequence[Outcome]) -> Written:
    """``-rA``: a summary that names skips by place only."""
    named = [(name, outcome) for name, outcome in tests if outcome != S]
    text = [f"{name.partition('::')[0]} {outcome[0]}" for name, outcome in tests]
    text += ["=========== short test summary info ============", "SKIPPED [1] tests/test_x.py:7: not here"]
    return "\n".join([*text, *(_pytest_said(*test) for test in named)]), dict(named)


def _pytest_options(tests: Sequence[Outcome]) -> Written:
    """A path in brackets is shortened to its last part."""
    text, named = _pytest(tests)
    return text, {name.replace("[/etc/x/y.txt]", "[/y.txt]"): outcome for name, outcome in named.items()}


def _pytest_v2(tests: Sequence[Outcome]) -> Written:
    """Only a failure's message is taken off its id."""
    text, named = _pytest(tests)
    return text, {name if o == F else _pytest_said(name, o).partition(" ")[2]: o for name, o in named.items()}


def _pytest_old(tests: Sequence[Outcome]) -> Written:
    """Verbose lines of old versions: the outcome stands behind the id, coloured."""
    return "\n".join(f"{name} \x1b[32m{outcome}\x1b[0m" for name, outcome in tests), dict(tests)


def _django(tests: Sequence[Outcome]) -> Written:
    words = {P: "ok", F: "FAIL", E: "ERROR", S: "skipped 'not here'"}
    return "\n".join(f"{name} ... {words[outcome]}" for name, outcome in tests), dict(tests)


def _django_noisy(tests: Sequence[Outcome]) -> Written:
    """What a test prints stands between its name and its ``ok``."""
    return "\n".join(f"{name} ... some output\nok" for name, _ in tests), dict(tests)


def django_id(rng: random.Random, number: int) -> str:
    return f"test_{number} (forms.tests.{rng.choice(WORDS).title()}Tests.test_{number})"


def _sympy(tests: Sequence[Outcome]) -> Written:
    words = {P: "ok", F: "F", E: "E"}
    return "\n".join(f"{name} {words[outcome]}" for name, outcome in tests), dict(tests)


def _sympy_failures(tests: Sequence[Outcome]) -> Written:
    bad = [name for name, outcome in tests if outcome == F]
    text = "\n".join(f"{'_' * 20} sympy/core/tests/test_x.py:{name} {'_' * 20}\n  assert 0" for name in bad)
    return text, {f"sympy/core/tests/test_x.py:{name}": F for name in bad}


def _doctest(tests: Sequence[Outcome]) -> Written:
    text = ['<doctest binary="t">', "<TestSuite>", '<TestCase name="table">']
    for name, outcome in tests:
        good = "true" if outcome == P else "false"
        text.append(f'<SubCase name={quoteattr(name)}><Expression success="{good}"></Expression></SubCase>')
    return "\n".join([*text, "</TestCase>", "</TestSuite>", "</doctest>"]), {f"table > {n}": o for n, o in tests}


def _maven(tests: Sequence[Outcome]) -> Written:
    words = {P: "SUCCESS", F: "FAILURE"}
    text = [f"+ mvnd test -B -Dtest={name}\n[INFO] BUILD {words[outcome]}" for name, outcome in tests]
    return "\n".join(text), dict(tests)


def _prismjs(tests: Sequence[Outcome]) -> Written:
    kinds = {"passes": P, "failures": F}
    found = {kind: [{"fullTitle": name} for name, o in tests if o == outcome] for kind, outcome in kinds.items()}
    return f"+ ./node_modules/.bin/mocha tests/run.js --reporter json\n{json.dumps(found, indent=2)}", dict(tests)


def _mocha_json(tests: Sequence[Outcome]) -> Written:
    """As `_prismjs`, of an old Lighthouse; failures first, each title on a line of its own with a comma behind."""
    kinds = {"failures": F, "passes": P}
    found = {
        kind: [{"fullTitle": n, "duration": 1} for n, o in tests if o == outcome] for kind, outcome in kinds.items()
    }
    text = json.dumps(found, indent=2, ensure_ascii=False)
    return f"+ ./node_modules/.bin/mocha --reporter json\n{text}", dict(tests)


def _next_v1(tests: Sequence[Outcome]) -> Written:
    marks = {P: "✓", F: "✗"}
    text = [f"      {marks[outcome]} {name}" for name, outcome in tests]
    head = "+ xvfb-run npm test\nStarting browser Chrome\n  Table\n    basic\n"
    return head + "\n".join(text) + "\nTOTAL: 3 SUCCESS", {f"Table - basic - {name}": o for name, o in tests}


def _next_v2(tests: Sequence[Outcome]) -> Written:
    text = [f"    {n}) {name}" if o == F else f"    ✓ {name} (12ms)" for n, (name, o) in enumerate(tests, 1)]
    said = {f"Table: {name}": outcome for name, outcome in tests}
    return "  Running:  table.js (1 of 1)\n\n\n  Table\n" + "\n".join(text), said


CHROME = "HeadlessChrome 90.0.4430 (Linux 0.0.0) {name} FAILED\n"
SUITES = {P: "PASS src/{name}.js (2.5s)", F: "FAIL src/{name}.js"}
JEST = {P: "  ✓ {name} (3 ms)", F: "  ✕ {name}", S: "  ○ {name}"}
JEST_JSON = {P: "[PASSED] {name}", F: "[FAILED] {name}"}
MINITEST = {P: "{name}. = 0.01 s = .", F: "{name}. = 0.01 s = F"}
CUCUMBER = {P: "{name} ......", F: "{name} ....F"}
UNIT = {P: "test: {name}:\t.: (0.01)", F: "test: {name}:\tF", S: "test: {name}:\tO"}
PYTEST = [
    Format((P, F, E, X, S), _pytest, node_id),
    lines({P: "PASSED {name}", F: "FAILED {name} - no - not so", E: "ERROR {name}"}, name=node_id),
]
OPTIONS = [Format((P, F, E, X, S), _pytest_options, node_id)]
V2 = [Format((P, F, E, X, S), _pytest_v2, node_id), Format((P, F, E, S), _pytest_old, node_id)]
ALIASES = {
    "astroid flask marshmallow matplotlib pvlib pytest pyvista sqlfluff xarray": PYTEST,
    "pydicom pytest_options pylint requests": OPTIONS,
    "astropy pytest_v2 scikit sphinx": V2,
}
FORMATS: dict[str, list[Format]] = {
    **{f"parse_log_{name}": forms for names, forms in ALIASES.items() for name in names.split()},
    "parse_log_django": [Format((P, F, E, S), _django, django_id), Format((P,), _django_noisy, django_id)],
    "parse_log_seaborn": [
        lines({P: "PASSED {name}", F: "FAILED {name}"}, name=node_id),
        lines({P: "{name} PASSED [ 9%]"}, name=node_id),
    ],
    "parse_log_sympy": [
        Format((P, F, E), _sympy, lambda rng, n: f"test_{rng.choice(WORDS)}_{n}"),
        Format((P, F), _sympy_failures, lambda rng, n: f"test_{n}"),
    ],
    "parse_log_redis": [
        lines({P: "[ok]: {name} (12 ms)", F: "[err]: {name} in tests/unit/x.tcl", S: "[skip]: {name}"})
    ],
    "parse_log_jq": [lines({P: "PASS: {name}", F: "FAIL: {name}"})],
    "parse_log_doctest": [Format((P, F), _doctest, phrase)],
    "parse_log_micropython_test": [lines({P: "pass  {name}", F: "FAIL  {name}", S: "skip  {name}"})],
    "parse_log_googletest": [lines({P: "[       OK ] {name} (3 ms)", F: "[  FAILED  ] {name} (4 ms)"}, name=symbol)],
    "parse_log_gotest": [
        lines({P: "--- PASS: {name} (0.01s)", F: "--- FAIL: {name} (0.01s)", S: "--- SKIP: {name} (0s)"})
    ],
    "parse_log_maven": [Format((P, F), _maven, symbol)],
    "parse_log_ant": [lines({P: "    [junit] [PASS] {name}", F: "    [junit] [FAIL] {name}"})],
    "parse_log_gradle_custom": [
        lines({P: "{name} PASSED", F: "{name}\n\n{name} FAILED"}, name=method),
        lines({P: "{name}\nPASSED"}, name=method),
    ],
    "parse_log_phpunit": [
        after("Table (Tests\\Table)", lines({P: " ✔ {name}", F: " ✘ {name}", S: " ↩ {name}"}), "Table > {name}")
    ],
    "parse_log_minitest": [lines(MINITEST)],
    "parse_log_cucumber": [lines(CUCUMBER)],
    "parse_log_jekyll": [
        lines(MINITEST, instance_id="jekyll__jekyll-9141"),
        lines(CUCUMBER, instance_id="jekyll__jekyll-8761"),
    ],
    "parse_log_ruby_unit": [lines(UNIT)],
    "parse_log_rspec_transformed_json": [lines({P: "{name} - passed", F: "{name} - failed"})],
    "parse_log_cargo": [lines({P: "test {name} ... ok", F: "test {name} ... FAILED"}, name=symbol)],
    "parse_log_jest": [lines(JEST)],
    "parse_log_jest_json": [lines(JEST_JSON)],
    "parse_log_immutable_js": [
        lines(JEST, instance_id="immutable-js__immutable-js-2006"),
        lines(JEST_JSON, instance_id="immutable-js__immutable-js-2005"),
    ],
    "parse_log_vitest": [
        lines({P: " ✓ {name} 3ms", F: " \N{MULTIPLICATION SIGN} {name} 3ms", S: " ↓ {name} [skipped]"})
    ],
    "parse_log_karma": [
        after("Starting browser Chrome\n  Table", lines({P: "    ✔ {name}", F: "    ✖ {name}"}), "Table > {name}")
    ],
    "parse_log_tap": [lines({P: "ok {n} {name}", F: "not ok {n} {name}"})],
    "parse_log_highlightjs": [after("  Table", lines({P: "    ✔ {name}", F: "    {n}) {name}"}), "Table.{name}")],
    "parse_log_prismjs": [Format((P, F), _prismjs, phrase)],
    "parse_log_eslint": [failures("  {n}) table\n       {name}:\n\n      AssertionError: no\n", "table {name}:")],
    "parse_log_bpmn_js": [failures(CHROME, "{name} ", "Executed 9 of 9")],
    "parse_log_chart_js": [failures("Chrome 90.0.4430 (Linux x86_64) {name} FAILED\n", "{name} ", "Executed 9 of 9")],
    "parse_log_openlayers": [
        failures("Chrome Headless 90.0 (Linux x86_64) {name} FAILED\n", "{name}", "Executed 9 of 9")
    ],
    "parse_log_marked": [failures("{n}) {name}\n", "{name}", "9 specs, 1 failure")],
    "parse_log_p5js": [failures("  {n}) table\n       {name}:\n     Error\n", "table:{name}", "9 passing")],
    "parse_log_grommet": [lines(SUITES, "src/{name}.js")],
    "parse_log_react_pdf": [lines(SUITES, "src/{name}.js")],
    "parse_log_carbon": [lines(SUITES, "src/{name}.js")],
    "parse_log_lighthouse": [
        lines(SUITES, "src/{name}.js", version="3.0"),
        after(
            "running 3 test files\nuse node 18\n  table",
            lines({P: "    ✔ {name} (5ms)", F: "    {n}) {name}"}, version="9.5"),
            "table - {name}",
        ),
        Format((P, F), _mocha_json, phrase, version="2.0"),
    ],
    "parse_log_next": [Format((P, F), _next_v1, phrase), Format((P, F), _next_v2, phrase, version="1.27")],
    "parse_log_quarto_cli": [
        lines(
            {P: "[smoke] > {name} ... \x1b[32mok\x1b[0m", F: "[smoke] > {name} ... \x1b[31mFAILED"}, "[smoke] > {name}"
        )
    ],
    "parse_log_calypso": [
        after(
            "+ ./node_modules/.bin/jest client\n  Table",
            lines({P: "    ✓ {name} (3ms)", F: "    ✕ {name}"}),
            "Table - {name}",
        )
    ],
}
"""swebench's parser -> the formats that it reads."""
