"""The typist finds what a page says and does not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page import is_as_shown
from tests.docs.typist import PageError, Typist

PAGE = """
```console terminal=broker
$ oncestream broker start --data data --listen 127.0.0.1:9092
oncestream broker ready on 127.0.0.1:9092
```

```console
$ oncestream topic create clicks --partitions 2
$ printf 'a\\nb\\n' | oncestream produce clicks
2 records written to clicks in 0.1 s
$ oncestream topic offsets clicks -o json
[{"topic": "clicks", "partition": 0, "earliest": 0, ...}, ...]
$ cd /; oncestream topic delete nope --yes
error: ...
...
```

```python
# count.py
import sys

print(sum(1 for line in sys.stdin))
```

```console
$ oncestream consume clicks | python ~/work/count.py
2
$ oncestream consume clicks --follow
...
b
^C
$ echo after
after
```

```python
import oncestream as once

with once.Consumer("clicks", group="page") as consumer:
    print(len([next(consumer), next(consumer)]))
```

```text
2
```
"""


def type_page(text: str, folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(text)
    with Typist(page, folder) as typist:
        typist.type_page()


def test_a_page_that_does_what_it_says_passes(tmp_path: Path) -> None:
    type_page(PAGE, tmp_path)


@pytest.mark.parametrize(
    ("right", "broken", "says"),
    [
        ("topic create clicks --partitions", "topic create clicks --portions", "exit code 2"),
        ("2 records written", "3 records written", "the page shows otherwise"),
        ('"earliest": 0', '"earliest": 1', "the page shows otherwise"),
        ("```text\n2", "```text\n3", "the page shows otherwise"),
        ("import oncestream as once", "import twicestream as once", "this Python block failed"),
        ("ready on 127.0.0.1:9092", "ready by 127.0.0.1:9092", "the page shows otherwise"),
    ],
)
def test_a_page_with_one_broken_line_fails(tmp_path: Path, right: str, broken: str, says: str) -> None:
    assert right in PAGE
    with pytest.raises(PageError, match=says):
        type_page(PAGE.replace(right, broken), tmp_path)


def test_output_may_vary_only_where_the_page_says_so_or_in_its_times() -> None:
    assert is_as_shown(("3 records in 0.1 s",), "3 records in 12.4 s\n")
    assert not is_as_shown(("3 records in 0.1 s",), "4 records in 0.1 s\n")
    assert is_as_shown(("a", "...", "z"), "a\nb\nc\nz\n")
    assert not is_as_shown(("a", "z"), "a\nb\nz\n")
    assert is_as_shown(
        ('[{"at": 1767225600000,', '  "n": 1, ...}]'), '[\n {"at": 1800000000000, "n": 1, "m": 2}]'
    )
    assert not is_as_shown(('{"n": 1}',), '{"n": 2}')
    assert is_as_shown(('{"n":1}', '{"n":2}'), '{"n":1}\n{"n":2}\n')
    assert not is_as_shown(('{"n":1}', '{"n":2}'), '{"n":1}\n{"n":3}\n')
