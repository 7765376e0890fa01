"""The grammars that come with the package compile, and Lark itself accepts and refuses what it should."""

from __future__ import annotations

import json
import logging
from functools import cache

import pytest
import xgrammar
from lark import Lark
from lark.exceptions import GrammarError as LarkGrammarError
from lark.exceptions import LarkError
from typer.testing import CliRunner

from equivalence import GrammarError
from hybrid.cli.commands import app
from hybrid.cli.shipped_grammars import shipped_grammar, shipped_grammars

LARK_NAMES = [grammar.name for grammar in shipped_grammars() if grammar.kind == "lark"]


@cache
def parser(name: str) -> Lark:
    return Lark(shipped_grammar(name).text, parser="lalr", lexer="basic", start="start")


def is_parsed(name: str, text: str) -> bool:
    try:
        parser(name).parse(text)
    except LarkError:
        return False
    return True


JSON = [
    "null", " true\r\n", '"text"', "0", "-0", "-0.0e-0", "12.5E+3", "1e9", "[]", "{}", "[ ]\t",
    "[1,2,[3,[4]]]", '{"":{}}', '{"a": 1, "a": [true, false, null]}',
    r'"\" \\ \/ \b \f \n \r \t \u0041 😀 \ud800"', '"é € 😀 \x7f \u2028"',
    '{"name": "Ann", "tags": ["x", "y"], "age": 41.0}', ' [ { "k" : [ 1 , 2 ] } , "v" ] ',
    "", " ", "01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "NaN", "Infinity", "nul", "True", "truefalse",
    "1 2", "'a'", '"a', '"\t"', '"\x00"', r'"\x41"', r'"\u12"', "[1,]", "[,1]", "[1 2]", "{1: 2}", '{"a"}',
    '{"a": 1,}', '{"a" 1}', "[1]]", "/* no */ 1", "\u00a01", "\f1",
]  # fmt: skip


def is_json(text: str) -> bool:
    """What Python's reader takes, except for NaN and Infinity, which it accepts by default."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


ARITHMETIC_GOOD = [
    "1", "x", ".5", "1.25e-3", "1 + 2 * 3", "(1 + 2) * 3", "-x", "--x", "+-+1", "2 ^ 3 ^ 4", "2^-3", "-2^2",
    "a % b / c", "sin(x)", "max(1, 2, 3)", "now()", "f(g(h(1)), (2))", " \t( _a1 )\t",
]  # fmt: skip
ARITHMETIC_BAD = [
    "", "()", "1 +", "* 2", "1 2", "1.", "1.2.3", "1e", "1e+", "2x", "1e5e", "(1", "1)", "f(", "f(1,)",
    "f(,1)", "f 1", "2(3)", "1 ** 2", "a = b", "1\n+ 2", "x!",
]  # fmt: skip

SQL_GOOD = [
    "SELECT 1",
    "select * from t;",
    "SELECT DISTINCT a, b AS c, t.d e FROM s.t AS t WHERE a <> 'it''s' AND NOT b IS NULL",
    "SELECT DISTINCT ON (a) a FROM t",
    'SELECT "Order", `from`, "a""b" FROM "select"',
    "SELECT a FROM t LEFT OUTER JOIN u ON t.id = u.id INNER JOIN v USING (id, kind) CROSS JOIN w",
    "SELECT a FROM t NATURAL JOIN u, (SELECT 1) AS v (x), LATERAL (SELECT t.a) w",
    "SELECT a FROM (t JOIN (u FULL JOIN v ON TRUE) ON t.x = u.x)",
    "SELECT count(*), sum(DISTINCT a + 1), count(t.*) FROM t GROUP BY b, 2 HAVING count(*) > 1",
    "SELECT a FROM t ORDER BY a DESC NULLS LAST, lower(b) LIMIT 10 OFFSET 20",
    "SELECT a FROM t OFFSET 5 ROWS FETCH NEXT 3 ROWS ONLY",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9), m AS (SELECT 2)\n"
    "SELECT * FROM n, m",
    "(SELECT 1) UNION (SELECT 2 INTERSECT SELECT 3) ORDER BY 1",
    "SELECT 1 EXCEPT ALL SELECT 2 INTERSECT (SELECT 3 LIMIT 1)",
    "SELECT CASE WHEN a > 0 THEN 'p' WHEN a < 0 THEN 'n' ELSE 'z' END AS sign FROM t",
    "SELECT CASE a WHEN 1 THEN 2 END",
    "SELECT rank() OVER (PARTITION BY a, b ORDER BY c DESC) FROM t",
    "SELECT sum(x) FILTER (WHERE x > 0) OVER w FROM t WINDOW w AS (ORDER BY y ROWS "
    "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "SELECT avg(x) OVER (ORDER BY y RANGE 3 PRECEDING) FROM t",
    "SELECT a FROM t WHERE a BETWEEN 1 AND 2 AND b NOT BETWEEN 3 AND 4 OR c NOT IN (1, 2, 3)",
    "SELECT a FROM t WHERE a IN (SELECT b FROM u) AND EXISTS (SELECT 1) AND c >= ALL (SELECT 2)",
    "SELECT a FROM t WHERE (a, b) = (1, 2) AND c LIKE 'x%' ESCAPE '!' AND d IS NOT DISTINCT FROM e",
    "SELECT (SELECT 1), ((SELECT 2)), (SELECT 3) + 1, (SELECT 4 UNION (SELECT 5))",
    "SELECT CAST(a AS decimal(10, 2)), b::varchar(20)::text, CAST(c AS double precision) FROM t",
    "SELECT extract(year FROM d), date '2020-01-01', interval '1 day', first, rows FROM t",
    "SELECT -a * +b - -1.5e-3 || 'x' -- comment -- again\n/* and * this **/ FROM t",
    "SELECT :name, @p, $1, ? FROM t",
    "VALUES (1, 'a'), (2, NULL)",
    "SELECT * FROM (VALUES (1), (2)) AS v (n); SELECT 2;",
    "SELECT a FROM generate_series(1, 10) AS g (a) GROUP BY GROUPING SETS ((a), (), b, (a, b))",
    "SELECT selected, fromage, order_by FROM joined",
]
SQL_BAD = [
    "", ";", "SELECT", "SELECT FROM t", "SELECT a, FROM t", "SELECT a FROM", "SELECT a b c FROM t",
    "SELECT a FROM t WHERE", "SELECT a FROM t WHERE a =", "SELECT a FROM t JOIN u",
    "SELECT a FROM t CROSS JOIN u ON a = b", "SELECT a FROM t GROUP a", "SELECT a FROM t HAVING a ORDER a",
    "SELECT a FROM t WHERE a BETWEEN 1", "SELECT a FROM t WHERE a NOT NULL", "SELECT a FROM t WHERE a IN ()",
    "SELECT CASE END", "SELECT CASE WHEN a ELSE 1 END", "SELECT (1, ) FROM t", "SELECT 'open FROM t",
    'SELECT "" FROM t', "SELECT a /* open FROM t", "SELECT a UNION", "SELECT a LIMIT 1 UNION SELECT b",
    "WITH a AS SELECT 1 SELECT 2", "SELECT order FROM t", "SELECT a.*.b FROM t", "SELECT f(a b) FROM t",
    "SELECT rank() OVER PARTITION BY a FROM t", "SELECT 1 SELECT 2", "SELECT a FROM t;;",
    "INSERT INTO t VALUES (1)", "SELECT a -- FROM t\n,",
]  # fmt: skip

C_GOOD = [
    "",
    "int x;",
    "int main(void) { return 0; }",
    "static const unsigned long long table[2][3] = {{1, 2, 3}, [1] = {4}}, *end;",
    "struct Point { int x, y; double weight : 3; struct Point *next; };",
    "enum color { RED, GREEN = 1 << 2, BLUE, };",
    "typedef struct { char name[20]; } Person; typedef int (*Compare)(const void *, const void *);",
    "extern size_t length(const char *text, ...);",
    "void f() { for (int i = 0; i < 10; ++i) { if (i % 2) continue; else break; } }",
    "void f() { for (;;) ; while (x) { x--; } do { y += 1; } while (y < 3); }",
    "int f(int n) { switch (n) { case 0: case 1: return 1; default: return n * f(n - 1); } }",
    "void f() { if (a) if (b) c(); else d(); }",
    "void f() { again: x = y = z; goto again; }",
    "void f() { a = b ? c, d : e ? g : h; i = j || k && l | m ^ n & o == p < q << r + s * -t; }",
    "void f() { p->q.r[s](t, u)++; *v = &w[1]; x = (int) y * (struct Point *) z; }",
    "void f() { Node *n = make((Node) { .value = 1, .next = 0 }); word w; a * b; const word *c; }",
    "size_t n = sizeof(int *) + sizeof x + sizeof(x) + sizeof(Node[2]);",
    r'char *s = "a\"b\n" "c\x41\0"; char c = ' + r"'\'', d = '\\', e = '\u00e9';",
    "double a = 1., b = .5e-3f, c = 0x1F, d = 017, e = 1e9, g = 10UL;",
    '#include <stdio.h>\n#define MAX(a, b) \\\n  ((a) > (b) ? (a) : (b))\n// "\nint x; /* *\n/ */ int y;',
    "list make(void) { list l = { 0 }; return l; }",
    "int integer, iffy, do_it; interval reply;",
    "union u { int i; float f; } value; struct { int a; };",
    "void f(int (*callback)(int), char **argv, double m[][3]) { callback(1); (*callback)(2); }",
]
C_BAD = [
    "int", "int x", "int x = ;", "x = 1;", "int 2x;", "int f( { }", "int f(int) { return 1 }",
    "int f() { return 1; ", "void f() { if x y(); }", "void f() { else y(); }", "void f() { for (;) ; }",
    "void f() { do x(); while (y) }", "void f() { switch (x) case: ; }", "void f() { a + ; }",
    "void f() { 1 = 2 = 3 }", "void f() { a + b = c; }", "void f() { int g() { } }",
    "void f() { return int; }", "void f() { int if; }", "void f() { a b c; }", "void f() { x.1; }",
    "void f() { f(a,); }", "struct { int x }", "enum { A B };", 'char *s = "open;', "char c = '';",
    "char c = 'ab';", r'char *s = "\q";', "int x; /* open", "int x = 09;", "int x = 1 @ 2;",
    "void f() { Node = 1; }",
]  # fmt: skip

TEXTS = {
    "json.lark": ([text for text in JSON if is_json(text)], [text for text in JSON if not is_json(text)]),
    "arithmetic.lark": (ARITHMETIC_GOOD, ARITHMETIC_BAD),
    "sql_select.lark": (SQL_GOOD, SQL_BAD),
    "c_like.lark": (C_GOOD, C_BAD),
}


@pytest.mark.parametrize("name", LARK_NAMES)
def test_good_texts_are_parsed_and_bad_ones_refused(name: str) -> None:
    good, bad = TEXTS[name]
    assert [text for text in good if not is_parsed(name, text)] == []
    assert [text for text in bad if is_parsed(name, text)] == []


@pytest.mark.parametrize("name", [name for name in LARK_NAMES if name != "c_like.lark"])
def test_nothing_is_left_to_choice(name: str) -> None:
    """The parser must have no conflicts, and no two patterns of the lexer may match the same text."""
    pytest.importorskip("interegular")
    Lark(shipped_grammar(name).text, parser="lalr", lexer="basic", start="start", strict=True)


def test_the_dangling_else_is_the_only_choice(caplog: pytest.LogCaptureFixture) -> None:
    text = shipped_grammar("c_like.lark").text
    with pytest.raises(LarkGrammarError, match="Shift/Reduce conflict for terminal ELSE"):
        Lark(text, parser="lalr", lexer="basic", start="start", strict=True)
    with caplog.at_level(logging.DEBUG, logger="lark"):
        Lark(text, parser="lalr", lexer="basic", start="start")
    said = [record.message for record in caplog.records]
    assert sum("conflict" in message for message in said) == 1
    assert not any("Collision" in message for message in said)


def test_the_nearest_if_takes_the_else() -> None:
    tree = parser("c_like.lark").parse("void f() { if (a) if (b) c(); else d(); }")
    inner, outer = sorted(tree.find_data("if"), key=lambda node: len(list(node.iter_subtrees())))
    assert len(outer.children) == 2 and len(inner.children) == 3


@pytest.mark.parametrize("grammar", shipped_grammars(), ids=lambda grammar: grammar.name)
def test_each_has_a_description_and_builds(grammar) -> None:
    assert 20 < len(grammar.description) < 120 and "\n" not in grammar.description
    assert grammar.description in grammar.text.splitlines()[0]
    if grammar.kind == "gbnf":
        xgrammar.Grammar.from_ebnf(grammar.text)
    else:
        parser(grammar.name)


def test_the_command_lists_them_and_prints_one() -> None:
    result = CliRunner().invoke(app, ["grammars"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for grammar in shipped_grammars():
        assert any(grammar.name in line and grammar.description in line for line in lines)
    result = CliRunner().invoke(app, ["grammars", "--show", "json.lark"])
    assert result.exit_code == 0 and result.output == shipped_grammar("json.lark").text


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(GrammarError, match=r"no grammar 'java'.*json\.lark"):
        shipped_grammar("java")
    result = CliRunner().invoke(app, ["grammars", "--show", "java"], env={"COLUMNS": "160"})
    assert result.exit_code == 2 and "json.lark" in result.output
