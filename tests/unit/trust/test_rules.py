"""Rules as people write them, and the ways around them."""

from __future__ import annotations

import os
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policy_world import (
    BASH,
    BOXED,
    DOCKED,
    FETCH,
    HOST,
    MESSAGE,
    ONLINE,
    PLUGIN,
    READ,
    WRITE,
    Plain,
    context,
    judged,
    tainted,
)

from mainstay.core.errors import ConfigError
from mainstay.trust.policy import Policy, PolicyContext, SandboxGuarantees
from mainstay.trust.rule_patterns import compile_glob, path_matches, split_url, url_matches
from mainstay.trust.rules import PolicyRules, RuleLayer, ToolRule, suggest_rule
from mainstay.trust.tool_invocation import ToolInvocation

EXAMPLES = 2000 if os.environ.get("MAINSTAY_TEST_ALL") else 150


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("bash(", "parentheses"),
        ("bash(git *", "parentheses"),
        ("bash(git *))", "parentheses"),
        ("bash(a)(b)", "parentheses"),
        ("bash()", "empty pattern"),
        ("bash( )", "empty pattern"),
        ("bash(command=)", "empty pattern"),
        ("(git *)", "name of a tool"),
        ("bash git", "name of a tool"),
        ("cap:", "capability"),
        ("cap:net net", "capability"),
        ("*(cap:)", "capability"),
        ("bash(curl * | sh)", "one command"),
        ("bash(a && b)", "one command"),
        ("fetch(https://)", "address"),
        ("fetch(https://a@b/)", "address"),
        ("x" * 2000, "longer"),
    ],
)
def test_an_invalid_rule_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        ToolRule.parse(text)
    assert "\n" not in str(raised.value)
    assert str(raised.value).count(". ") == 0


def test_a_layer_takes_no_more_rules_than_it_can_look_at() -> None:
    with pytest.raises(ConfigError, match="more than"):
        RuleLayer(PolicyRules(allow=("a",) * 2000))


async def allowed(tool: Plain, arguments: dict[str, object], *rules: str) -> bool:
    """By one of these rules: without them it would be asked about, on the host, or denied, from a plugin."""
    strange = Plain(tool.name, *tool.capabilities, origin="untrusted:plugin")
    verdict = await judged(strange, arguments, PolicyRules(allow=rules), confinement=HOST)
    return verdict.decision == "allow"


async def denied(tool: Plain, arguments: dict[str, object], *rules: str) -> bool:
    return (await judged(tool, arguments, PolicyRules(deny=rules))).decision == "deny"


# --- names and capabilities ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ("web__search", True),
        ("web__*", True),
        ("web.*", True),
        ("*", True),
        ("web", False),
        ("web__", False),
        ("Web__*", False),
        ("cap:net", True),
        ("cap:net.*", False),
        ("cap:*", True),
        ("*(cap:net)", True),
        ("web__*(cap:exec)", False),
    ],
)
async def test_tools_are_named_by_globs_or_by_what_they_need(rule: str, matches: bool) -> None:
    assert await allowed(PLUGIN, {}, rule) is matches


async def test_a_capability_is_denied_with_all_below_it_and_allowed_only_as_it_is_named() -> None:
    slack = Plain("post", "send.slack")
    assert await denied(slack, {}, "cap:send")
    assert await denied(Plain("post", "send"), {}, "cap:send.*")
    assert not await allowed(slack, {}, "cap:send")
    assert await allowed(slack, {}, "cap:send.*")
    assert not await allowed(Plain("post", "send.slack", "fs.write"), {}, "cap:send.*"), "it needs more than that"


# --- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git",
        "/usr/bin/git log -5",
        "git add a && git commit -m 'x y'",
        "git log | git shortlog",
        "timeout 5 git status",
        "env A=b git status",
        "sh -c 'git status'",
        "git log > out.txt",
        "git log 2>&1 >/dev/null",
        "git add $FILE",
        "git diff\ngit status # really",
    ],
)
async def test_a_command_is_allowed_if_all_that_runs_is(command: str) -> None:
    assert await allowed(BASH, {"command": command}, "bash(git *)")


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "git status; rm x",
        "git status && rm x",
        "git status || rm x",
        "git status & rm x",
        "git status | sh",
        "git status\nrm x",
        "git status # \nrm x",
        "git $(rm x)",
        "git log `rm x`",
        'git log "$(rm x)"',
        "git <(rm x)",
        "git log > ~/.bashrc",
        "git log > /etc/x",
        "git log > .git/hooks/post-commit",
        "git log > a/.x",
        "git log > ../x",
        "git log > $X",
        "git log > ~/x",
        "git -c alias.x='!rm x' x",
        "git -c core.pager='rm x' log",
        "git clone --upload-pack='rm x' u",
        "git clone ext::x",
        "git x",
        "PATH=. git status",
        "LD_PRELOAD=./x git status",
        "GIT_PAGER=x git log",
        "./git status",
        "/tmp/git status",
        "gitx status",
        "git() { rm x; }; git status",
        "alias git=rm; git x",
        "xargs rm < f",
        "sudo git status",
        "find . -exec git status ';'",
        "{git,status}",
        "g?t status",
        "$GIT status",
        "eval git $X",
        "git\u00a0status",
        "git status\u2028rm x",
        "git status\r",
        "git\0",
        "git 'unclosed",
        "",
        "   ",
        "# git",
        "A=b",
    ],
)
async def test_allowing_a_program_allows_nothing_that_hides_behind_it(command: str) -> None:
    assert not await allowed(BASH, {"command": command}, "bash(git *)")
    assert await allowed(BASH, {"command": command}, "bash"), "the bare name allows whatever it is given"


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "git -C . push",
        "git --no-pager push",
        "git --work-tree /x -C y push --force",
        "/usr/bin/git push",
        "GIT push",
        "env git push",
        "ls && (git push)",
        "echo $(git push)",
        "git $X push",
        "git $X",
        "sh -c 'git push'",
        "xargs git push",
        "sudo git push",
        "$X push",
    ],
)
async def test_denying_a_command_denies_it_in_every_position(command: str) -> None:
    assert await denied(BASH, {"command": command}, "bash(git push *)")
    assert await denied(BASH, {"command": command}, "bash(git push)"), "a refusal covers whatever follows"


@pytest.mark.parametrize("command", ["git pull", "git commit -m push", "echo git push", "grep 'git push' f", "ls"])
async def test_denying_a_command_does_not_deny_others(command: str) -> None:
    assert not await denied(BASH, {"command": command}, "bash(git push *)")


@pytest.mark.parametrize(
    "command", ["rm -rf x", "rm -fr x", "rm -r -f x", "rm -r x -f", "rm -Rvf x", "rm --recursive --force x"]
)
async def test_options_are_denied_in_any_order_and_spelling(command: str) -> None:
    assert await denied(BASH, {"command": command}, "bash(rm -rf *)")
    assert not await denied(BASH, {"command": "rm x"}, "bash(rm -rf *)")


async def test_where_rules_forbid_commands_a_script_that_cannot_be_read_is_asked_about() -> None:
    rules = PolicyRules(deny=("bash(rm *)",))
    opaque = await judged(BASH, {"command": "python -c 'x'"}, rules)
    assert opaque.decision == "ask"
    assert "python -c" in opaque.reason
    assert (await judged(BASH, {"command": "ls"}, rules)).decision == "allow"
    assert (await judged(BASH, {"command": "python -c 'x'"})).decision == "allow", "in a sandbox, without rules"


NAMED_PROGRAMS = [
    ("bash(kubectl get *)", "kubectl get pods -n web"),
    ("bash(kubectl get *)", "timeout 5 /usr/bin/kubectl get pods"),
    ("bash(terraform plan *)", "terraform plan -out plan.bin"),
    ("bash(docker ps *)", "docker ps -a"),
    ("bash(ansible *)", "ansible all -m ping"),
    ("bash(systemctl status *)", "systemctl status nginx"),
    ("bash(python3 -m *)", "python3 -m pytest -q"),
    ("bash(python3 -m *)", "python3 -m timeit 1+1"),
    ("bash(python3 *)", "python3 -c 'print(1)'"),
    ("bash(python3 *)", "python3 - <<E\nprint(1)\nE"),
    ("bash(python3 --version)", "python3 --version"),
    ("bash(bash x.sh)", "bash x.sh"),
    ("bash(bash x.sh *)", "bash x.sh now"),
    ("bash(bash *)", "bash x.sh now"),
    ("bash(node *)", "node -e 1"),
    ("bash(crontab -l)", "crontab -l"),
    ("bash(systemd-run true)", "systemd-run true"),
]


@pytest.mark.parametrize(("rule", "command"), NAMED_PROGRAMS)
async def test_any_program_is_allowed_by_a_rule_that_names_it(rule: str, command: str) -> None:
    """SIGIL-067: a program that may run anything is asked about no more than one that is not known at all."""
    assert await allowed(BASH, {"command": command}, rule)
    assert await allowed(BASH, {"command": "unknown get x"}, "bash(unknown *)")
    both = PolicyRules(allow=(rule, "bash(ls *)"), deny=("bash(rm *)",))
    assert (await judged(BASH, {"command": command}, both)).decision == "allow", "another rule forbids another program"


@pytest.mark.parametrize("confinement", [BOXED, ONLINE, DOCKED, HOST])
@pytest.mark.parametrize(("rule", "command"), NAMED_PROGRAMS)
async def test_naming_a_program_never_makes_it_more_asked_about(
    rule: str, command: str, confinement: SandboxGuarantees
) -> None:
    for deny in ((), ("bash(shred *)",)):
        for circumstances in (None, tainted("show me the pods")):
            unnamed, named = [
                await judged(
                    BASH, {"command": command}, PolicyRules(allow=allow, deny=deny), circumstances, confinement
                )
                for allow in ((), (rule,))
            ]
            assert (unnamed.decision, named.decision) in [("allow", "allow"), ("ask", "allow"), ("ask", "ask")]


@pytest.mark.parametrize(
    ("rules", "command"),
    [
        (("bash(ls *)",), "timeout 5 ls -l"),
        (("bash(ls *)",), "env A=1 nice ls"),
        (("bash(sudo *)", "bash(ls *)"), "sudo ls"),
        (("bash(ssh *)", "bash(ls *)"), "ssh host ls"),
        (("bash(uv run *)", "bash(pytest *)"), "uv run pytest -q"),
    ],
)
async def test_a_program_that_starts_another_is_allowed_with_the_one_that_it_starts(
    rules: tuple[str, ...], command: str
) -> None:
    assert await allowed(BASH, {"command": command}, *rules)
    assert not await allowed(
        BASH, {"command": command}, rules[0] if len(rules) > 1 else f"bash({command.split()[0]} *)"
    )


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("bash(kubectl get *)", "kubectl delete pod x"),
        ("bash(kubectl get *)", "kubectl get pods; rm x"),
        ("bash(kubectl get *)", "kubectl get pods | xargs rm"),
        ("bash(kubectl get *)", "kubectl get $(rm x)"),
        ("bash(kubectl get *)", "kubectl get pods | bash"),
        ("bash(kubectl get *)", "kubectl get pods > ~/.bashrc"),
        ("bash(kubectl get *)", "KUBECONFIG=x kubectl get pods"),
        ("bash(kubectl get *)", "./kubectl get pods"),
        ("bash(* --version)", "tclsh --version"),
        ("bash(crontab *)", "crontab -"),
        ("bash(tmux *)", "tmux new -d rm"),
        ("bash(kubectl get *)", "kubectl $X pods"),
        ("bash(* get *)", "kubectl get pods"),
        ("bash(k* get *)", "kubectl get pods"),
        ("bash(bash x.sh)", "bash y.sh"),
        ("bash(bash x.sh)", "bash x.sh; bash y.sh"),
        ("bash(bash x.sh)", "bash -c 'rm x' x.sh"),
        ("bash(bash *)", "bash -c 'rm x'"),
        ("bash(bash *)", "bash < x.sh"),
        ("bash(bash *)", "bash $X"),
        ("bash(python3 -m pytest *)", "python3 -m pip install x"),
        ("bash(python3 -m *)", "python3 -c x"),
        ("bash(python3 -m *)", "python3 - <<E\nx\nE"),
        ("bash(python3)", "python3 <<E\nx\nE"),
        ("bash(systemd-run *)", "systemd-run rm x"),
        ("bash(tar *)", "tar -I 'rm x' -xf a"),
        ("bash(awk *)", "awk 'BEGIN { system(\"rm x\") }'"),
        ("bash(hash *)", "hash -p ./x git"),
        ("bash(at *)", "echo rm x | at now"),
    ],
)
async def test_a_rule_for_a_program_that_may_run_anything_allows_no_other_program(rule: str, command: str) -> None:
    rules = (rule, "bash(echo *)")
    assert not await allowed(BASH, {"command": command}, *rules)
    verdict = await judged(BASH, {"command": command}, PolicyRules(allow=rules, deny=("bash(shred *)",)))
    assert verdict.decision == "ask"


async def test_what_a_rule_allows_is_asked_about_where_the_flow_of_information_says_so() -> None:
    rules = PolicyRules(allow=("bash(kubectl *)",))
    command = {"command": "kubectl apply -f x.yaml"}
    assert (await judged(BASH, command, rules, confinement=ONLINE)).decision == "allow"
    assert (await judged(BASH, command, rules, tainted("show me the pods"), ONLINE)).decision == "ask"
    assert (await judged(BASH, command, rules, tainted("show me the pods"), HOST)).decision == "ask"


async def test_a_layer_that_forbids_a_command_is_not_satisfied_by_the_rule_of_another_layer() -> None:
    policy = Policy(
        PolicyRules(allow=("bash(kubectl *)",)), people={"ann": PolicyRules(deny=("bash(rm *)",))}, confinement=BOXED
    )
    verdict = policy.decide(BASH, {"command": "kubectl exec x"}, context(), PolicyContext(cwd="/w", person="ann"))
    assert verdict.decision == "ask"


async def test_words_of_a_pattern_are_whole_and_paths_in_them_are_resolved() -> None:
    assert await allowed(BASH, {"command": "cat src/a/b"}, "bash(cat src/**)")
    assert not await allowed(BASH, {"command": "cat src/../../etc/passwd"}, "bash(cat src/**)")
    assert not await allowed(BASH, {"command": "cat src/a/b"}, "bash(cat src/*)")
    assert not await allowed(BASH, {"command": "cat src/a /etc/passwd"}, "bash(cat src/*)")
    assert not await allowed(BASH, {"command": "'npm run' test"}, "bash(npm run test)")
    assert await allowed(BASH, {"command": "echo 'a b'"}, "bash(echo a\\ b)")


# --- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "narrow", "broad"),
    [
        ("docs/**", "docs/a/b.md", True, True),
        ("docs/**", "/w/docs/a.md", True, True),
        ("docs/**", "./docs//a.md", True, True),
        ("docs/**", "docs", True, True),
        ("docs/**", "docs/../src/a", False, False),
        ("docs/**", "src/../docs/a", True, True),
        ("docs/**", "../docs/a", False, False),
        ("docs/**", "/docs/a", False, False),
        ("docs/**", "docsx/a", False, False),
        ("docs/**", "DOCS/a", False, True),
        ("docs/*", "docs/a/b", False, False),
        ("docs/*.md", "docs/a.md", True, True),
        ("/etc/**", "/etc/passwd", True, True),
        ("/etc/**", "../etc/passwd", True, True),
        ("/etc/**", "//etc/passwd", True, True),
        ("**/.env", ".env", True, True),
        ("**/.env", "a/b/.env", True, True),
        ("**/.env", "/other/.env", False, True),
        ("**/secrets/**/key.pem", "secrets/key.pem", True, True),
        ("**/secrets/**/key.pem", "a/secrets/key.pem", True, True),
        ("**/secrets/**/key.pem", "secrets/a/b/key.pem", True, True),
        ("**/secrets/**/key.pem", "a/b/secrets/c/key.pem", True, True),
        ("**/secrets/**/key.pem", "/other/secrets/key.pem", False, True),
        ("**/secrets/**/key.pem", "SECRETS/key.pem", False, True),
        ("**/secrets/**/key.pem", "secretskey.pem", False, False),
        ("**/secrets/**/key.pem", "mysecrets/key.pem", False, False),
        ("**/secrets/**/key.pem", "secrets/mykey.pem", False, False),
        ("/w/**/a/**/b/**/c", "a/b/c", True, True),
        ("/w/**/a/**/b/**/c", "/w/x/a/b/y/z/c", True, True),
        ("**/**/.env", ".env", True, True),
        ("**/.ssh/**", ".ssh", True, True),
        ("a**/b", "b", False, False),
        ("a**/b", "a/b", True, True),
        ("\\**/b", "b", False, False),
        ("**", "a/b", True, True),
        ("**", "../x", False, True),
        (".env", ".ENV", False, True),
        ("caf\u00e9", "cafe\u0301", False, True),
        ("a", "a\0", False, True),
    ],
)
def test_paths_are_matched_by_where_they_lead(pattern: str, path: str, narrow: bool, broad: bool) -> None:
    assert path_matches(pattern, path, "/w", broad=False) is narrow
    assert path_matches(pattern, path, "/w", broad=True) is broad


async def test_a_deny_rule_may_leave_no_folder_open() -> None:
    assert await denied(WRITE, {"path": "secrets/key.pem"}, "write(**/secrets/**/key.pem)")
    assert await denied(BASH, {"command": "cat secrets/key.pem"}, "bash(cat **/secrets/**/key.pem)")
    assert await denied(FETCH, {"url": "https://a.com/x/admin"}, "fetch(https://a.com/**/x/**/admin)")
    assert not await denied(WRITE, {"path": "secrets/other.pem"}, "write(**/secrets/**/key.pem)")


async def test_a_rule_about_paths_looks_at_every_one_of_several() -> None:
    assert await allowed(WRITE, {"paths": ["docs/a", "docs/b"]}, "write(docs/**)")
    assert not await allowed(WRITE, {"paths": ["docs/a", "src/b"]}, "write(docs/**)")
    assert await denied(WRITE, {"paths": ["docs/a", "src/b"]}, "write(src/**)")
    assert not await allowed(WRITE, {"paths": []}, "write(docs/**)")
    assert not await allowed(WRITE, {}, "write(docs/**)")


async def test_a_tool_may_name_further_subjects_of_a_call() -> None:
    class Patch(Plain):
        def subjects(self, arguments: dict[str, str]) -> dict[str, list[str]]:
            return {"path": arguments["patch"].split()}

    patch = Patch("apply_patch", "fs.write")
    assert await denied(patch, {"patch": "a .git/config"}, "*(path=.git/**)")
    assert not await denied(patch, {"patch": "a b"}, "*(path=.git/**)")


# --- addresses -----------------------------------------------------------------------------------

DOCS = "https://docs.python.org/**"


@pytest.mark.parametrize(
    ("url", "narrow", "broad"),
    [
        ("https://docs.python.org/3/", True, True),
        ("https://docs.python.org", True, True),
        ("HTTPS://Docs.Python.ORG/3?q=1", True, True),
        ("https://docs.python.org:443/3", True, True),
        ("https://docs.python.org./3", True, True),
        ("https://docs.python.org:8443/3", False, True),
        ("http://docs.python.org/3", False, False),
        ("https://docs.python.org.evil.com/", False, False),
        ("https://docs.python.org@evil.com/", False, True),
        ("https://docs.python.org:x@evil.com/", False, True),
        ("https://docs.python.org%2f@evil.com/", False, True),
        ("https://docs.python.org\\@evil.com/", False, True),
        ("https://docs.python.org\t.evil.com/", False, True),
        ("https://evil.com/https://docs.python.org/", False, False),
        ("https://evil.com#docs.python.org/", False, False),
        ("https://evil.com?docs.python.org/", False, False),
        ("https://xdocs.python.org/", False, False),
        ("https:/docs.python.org/", False, True),
        ("//docs.python.org/", False, True),
        ("https:docs.python.org", False, True),
        ("https://d\u043ecs.python.org/", False, False),
        ("https://docs\u3002python\u3002org/", True, True),
        ("javascript:https://docs.python.org/", False, True),
        ("", False, True),
    ],
)
def test_the_whole_host_of_an_address_is_matched(url: str, narrow: bool, broad: bool) -> None:
    assert url_matches(DOCS, url, broad=False) is narrow
    assert url_matches(DOCS, url, broad=True) is broad


@pytest.mark.parametrize(
    ("pattern", "url", "narrow", "broad"),
    [
        ("https://a.com/docs/**", "https://a.com/docs/../admin", False, False),
        ("https://a.com/docs/**", "https://a.com/docs/%2e%2e/admin", False, False),
        ("https://a.com/docs/**", "https://a.com/docs/..%2fadmin", False, True),
        ("https://a.com/docs/**", "https://a.com/x/../docs/y", True, True),
        ("https://a.com/docs/*", "https://a.com/docs/x?y=z", False, False),
        ("https://a.com/docs/**", "https://a.com/docs/x?y=z", True, True),
        ("https://a.com/a?b=*", "https://a.com/a?b=c", True, True),
        ("https://a.com/a?b", "https://a.com/axb", False, False),
        ("https://a.com", "https://a.com/", True, True),
        ("https://a.com", "https://a.com/x", False, True),
        ("a.com/**", "https://a.com/x", True, True),
        ("a.com/**", "http://a.com/x", False, True),
        ("*.a.com/**", "https://b.a.com/x", True, True),
        ("*.a.com/**", "https://a.com/x", False, False),
        ("https://*/**", "https://a.com/x", True, True),
        ("http://127.0.0.1/**", "http://127.0.0.1/x", True, True),
        ("http://127.0.0.1/**", "http://2130706433/x", False, True),
        ("http://127.0.0.1/**", "http://0x7f.1/x", False, True),
        ("http://127.0.0.1/**", "http://127.1/x", False, True),
        ("http://[::1]/**", "http://[0:0::1]/x", True, True),
        ("https://a.com:*/**", "https://a.com:99/x", True, True),
        ("https://M\u00fcnchen.de/**", "https://xn--mnchen-3ya.de/x", True, True),
    ],
)
def test_addresses_are_matched_by_what_they_mean(pattern: str, url: str, narrow: bool, broad: bool) -> None:
    assert url_matches(pattern, url, broad=False) is narrow
    assert url_matches(pattern, url, broad=True) is broad


async def test_rules_by_address_and_by_other_arguments() -> None:
    assert await allowed(FETCH, {"url": "https://docs.python.org/3/"}, f"fetch({DOCS})")
    assert not await allowed(FETCH, {"url": "https://docs.python.org.evil.com/"}, f"fetch({DOCS})")
    assert await allowed(MESSAGE, {"to": "ops:general", "text": "x"}, "message(to=ops:*)")
    assert not await allowed(MESSAGE, {"to": "dev:general", "text": "ops:"}, "message(to=ops:*)")
    both = "edit(path=docs/**, mode=append)"
    assert await allowed(Plain("edit"), {"path": "docs/a", "mode": "append"}, both)
    assert not await allowed(Plain("edit"), {"path": "docs/a", "mode": "all"}, both)


async def test_arguments_that_are_structs_are_known_by_the_names_the_model_uses() -> None:
    class Span(msgspec.Struct, rename={"start": "from"}):
        start: str

    assert (await judged(READ, Span("secret"), PolicyRules(deny=("read(from=secret)",)))).decision == "deny"
    assert (await judged(READ, Span("other"), PolicyRules(deny=("read(from=secret)",)))).decision == "allow"


# --- suggestions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "rule"),
    [
        (FETCH, {"url": "https://docs.python.org/3/x?y"}, "fetch(https://docs.python.org/**)"),
        (BASH, {"command": "git push origin main"}, "bash(git push origin main)"),
        (BASH, {"command": "echo 'a (b) *'"}, "bash(echo a\\ \\(b\\)\\ \\*)"),
        (BASH, {"command": "timeout 5 make test"}, "bash(make test)"),
        (WRITE, {"path": "docs/a*.md", "content": "x"}, "write(path=docs/a\\*.md)"),
        (MESSAGE, {"to": "ops:general", "text": "x"}, "message(to=ops:general)"),
        (Plain("now"), {}, "now"),
        (BASH, {"command": "a; b"}, ""),
        (BASH, {"command": "python -c x"}, "bash(python -c x)"),
        (BASH, {"command": "kubectl get pods"}, "bash(kubectl get pods)"),
        (BASH, {"command": "python - <<E\nx\nE"}, ""),
        (BASH, {"command": "python <<E\nx\nE"}, ""),
        (BASH, {"command": "bash < x"}, ""),
        (BASH, {"command": "git add $X"}, ""),
        (FETCH, {"url": "https://a@b/"}, ""),
        (Plain("two"), {"x": 1, "y": 2}, ""),
    ],
)
def test_always_means_no_more_than_this(tool: Plain, arguments: dict[str, object], rule: str) -> None:
    assert suggest_rule(ToolInvocation(tool, arguments, "/w")) == rule


# --- globs ---------------------------------------------------------------------------------------


def slow_glob(pattern: list[str], text: str, *, is_component_start: bool = True) -> bool:
    """The same by trying everything."""
    if not pattern:
        return not text
    if is_component_start and pattern[:2] == ["**", "/"] and slow_glob(pattern[2:], text):
        return True
    head, rest = pattern[0], pattern[1:]
    if head == "**":
        return any(slow_glob(rest, text[at:], is_component_start=False) for at in range(len(text) + 1))
    if head == "*":
        upto = text.find("/") if "/" in text else len(text)
        return any(slow_glob(rest, text[at:], is_component_start=False) for at in range(upto + 1))
    if not text:
        return False
    is_match = text[0] != "/" if head == "?" else text[0] == head
    return is_match and slow_glob(rest, text[1:], is_component_start=head == "/")


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "**", "**/", "?"]), max_size=6),
    st.text(alphabet="ab/", max_size=8),
)
@settings(max_examples=EXAMPLES * 3, deadline=None)
def test_globs_match_what_trying_everything_matches(tokens: list[str], text: str) -> None:
    single = [part for token in tokens for part in (("**", "/") if token == "**/" else (token,))]
    joined = [token for at, token in enumerate(single) if not (at and "*" in token and "*" in single[at - 1])]
    assert compile_glob("".join(joined), "/")(text) is slow_glob(joined, text)


def test_no_pattern_makes_matching_slow() -> None:
    before = time.process_time()
    assert not compile_glob("*a" * 100 + "**b", "/")("a" * 20_000)
    assert not compile_glob("**/a/" * 100 + "b", "/")("a/" * 10_000)
    assert time.process_time() - before < 1.0


@given(st.text(max_size=60))
@settings(max_examples=EXAMPLES, deadline=None)
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        rule = ToolRule.parse(text)
    except ConfigError:
        return
    assert rule.text == text.strip()
    assert isinstance(rule.covers_tool("bash", ("exec",), broad=True), bool)
    assert isinstance(rule.matches_arguments(ToolInvocation(BASH, {"command": text}), broad=False), bool)


@given(st.text(max_size=60))
@settings(max_examples=EXAMPLES, deadline=None)
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://docs.python.org{text}"):
        found = split_url(url)
        if url_matches(DOCS, url, broad=False):
            assert found is not None
            assert found[1] == "docs.python.org"
