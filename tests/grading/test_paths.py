"""Which files a patch touches."""

from __future__ import annotations

import pytest

from swe_plugin.grading.paths import Change, FileChange, file_changes

PLAIN = """\
--- a/one.py
+++ b/one.py
@@ -1,2 +1,3 @@
 context
--- a/not a file
++++ b/not a file
+diff --git a/no b/no
--- /dev/null
+++ b/dir/two words.py\t2024-01-01 00:00:00
@@ -0,0 +1 @@
+new
--- a/three.py
+++ /dev/null
@@ -1 +0,0 @@
-old
\\ No newline at end of file
"""
RENAME = """\
diff --git a/old.py b/new.py
similarity index 90%
rename from old.py
rename to new.py
--- a/old.py
+++ b/new.py
@@ -1 +1 @@
-a
+b
diff --git a/script b/script
old mode 100644
new mode 100755
diff --git a/x.bin b/x.bin
index 1..2 100644
GIT binary patch
literal 1
Ic${MZ000

literal 1
Ic${MZ000

diff --git "a/t\\tab \\303\\251" "b/t\\tab \\303\\251"
deleted file mode 100644
index 1..0
diff --git a/copy.py b/copied.py
similarity index 100%
copy from copy.py
copy to copied.py
"""


def test_a_plain_unified_diff_is_read_like_one_of_git():
    assert file_changes(PLAIN) == [
        FileChange("one.py", Change.MODIFIED),
        FileChange("dir/two words.py", Change.ADDED),
        FileChange("three.py", Change.DELETED),
    ]


def test_every_form_of_gits_header_is_read():
    assert file_changes(RENAME) == [
        FileChange("old.py", Change.DELETED),
        FileChange("new.py", Change.ADDED, "old.py"),
        FileChange("script", Change.MODIFIED),
        FileChange("x.bin", Change.MODIFIED),
        FileChange("t\tab é", Change.DELETED),
        FileChange("copied.py", Change.ADDED),
    ]


@pytest.mark.parametrize("text", ["", "\n", "hello\nworld\n"])
def test_no_patch_has_no_files(text):
    assert file_changes(text) == []
