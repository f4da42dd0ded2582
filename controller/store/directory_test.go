package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pillion-dev/pillion/controller/store"
)

// inForce is how long a change of a file may take to be in force.
const inForce = time.Second

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestDirectoryGivesItsYAMLAndJSONFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), manifest("one", "1")+"---\n"+manifest("two", "2"))
		write(t, filepath.Join(dir, "b.yml"), manifest("three", "3"))
		write(t, filepath.Join(dir, "c.json"), `{"apiVersion":"pillion.dev/v1alpha1","kind":"SidecarTemplate","metadata":{"name":"four"},"spec":{"inject":{"metadata":{"labels":{"value":"4"}}}}}`)
		write(t, filepath.Join(dir, "README.md"), "nothing")
		write(t, filepath.Join(dir, ".hidden.yaml"), manifest("hidden", "x"))
		if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700); err != nil {
			t.Fatal(err)
		}
		l, _ := running(t, store.Directory(dir))
		wait(100 * time.Millisecond)
		if err := l.Ready(); err != nil {
			t.Fatalf("Ready() = %v", err)
		}
		if diff := cmp.Diff([]string{"four", "one", "three", "two"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

func TestDirectoryChangeIsInForceWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.yaml")
		write(t, path, manifest("one", "1"))
		l, _ := running(t, store.Directory(dir))
		wait(inForce)
		// Of the same size, and with the same time of change: only the content tells.
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, manifest("one", "2"))
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		wait(inForce)
		if got := value(t, l.Snapshot(), "one"); got != "2" {
			t.Errorf("a second after the change the template gives %q", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		wait(inForce)
		if got := names(l.Snapshot()); len(got) != 0 {
			t.Errorf("a second after the deletion there are %v", got)
		}
	})
}

func TestFileThatIsBeingWrittenTakesPartWhenItIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.yaml")
		whole := manifest("one", "1") + "---\n" + manifest("two", "2")
		write(t, path, whole)
		l, log := running(t, store.Directory(dir))
		wait(inForce)
		whole = strings.ReplaceAll(whole, `value: "`, `value: "new-`)
		for end := 0; end < len(whole); end += 7 {
			write(t, path, whole[:end])
			wait(100 * time.Millisecond)
			if diff := cmp.Diff([]string{"one", "two"}, names(l.Snapshot())); diff != "" {
				t.Fatalf("entries while %d of %d bytes were written (-want +got):\n%s", end, len(whole), diff)
			}
			if got := errText(l.Snapshot(), "one") + errText(l.Snapshot(), "two"); got != "" {
				t.Fatalf("while %d of %d bytes were written there is the error %s", end, len(whole), got)
			}
		}
		write(t, path, whole)
		wait(inForce)
		if got := value(t, l.Snapshot(), "two"); got != "new-2" {
			t.Errorf("when the file is whole the template gives %q", got)
		}
		if log.Count("level=ERROR") != 0 {
			t.Error("an error was logged")
		}
	})
}

// mount lays out a directory as kubelet does for a ConfigMap: files are symbolic
// links through ..data to a folder that is swapped as a whole.
type mount struct{ dir string }

func (m mount) publish(t *testing.T, version string, files map[string]string) {
	t.Helper()
	folder := filepath.Join(m.dir, ".."+version)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(folder, name), text)
	}
	old, _ := os.Readlink(filepath.Join(m.dir, "..data"))
	if err := os.Symlink(filepath.Base(folder), filepath.Join(m.dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		link := filepath.Join(m.dir, name)
		if _, err := os.Lstat(link); err != nil {
			if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
				t.Fatal(err)
			}
		}
	}
	links, err := os.ReadDir(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if _, kept := files[l.Name()]; !kept && !strings.HasPrefix(l.Name(), "..") {
			if err := os.Remove(filepath.Join(m.dir, l.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if old != "" {
		if err := os.RemoveAll(filepath.Join(m.dir, old)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMountedConfigMapIsFollowedThroughItsSwaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mount{t.TempDir()}
		m.publish(t, "v1", map[string]string{"a.yaml": manifest("one", "1"), "b.yaml": manifest("two", "1")})
		l, log := running(t, store.Directory(m.dir))
		wait(inForce)
		m.publish(t, "v2", map[string]string{"a.yaml": manifest("one", "2"), "c.yaml": manifest("three", "2")})
		wait(inForce)
		if diff := cmp.Diff([]string{"one", "three"}, names(l.Snapshot())); diff != "" {
			t.Errorf("entries after the swap (-want +got):\n%s", diff)
		}
		if got := value(t, l.Snapshot(), "one"); got != "2" {
			t.Errorf("after the swap the template gives %q", got)
		}
		if log.Count("level=ERROR") != 0 {
			t.Error("an error was logged")
		}
	})
}

func TestMissingDirectoryIsNotReadyAndNamedUntilItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "later")
		l, log := running(t, store.Directory(dir))
		wait(inForce)
		if err := l.Ready(); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("Ready() = %v; want the directory's name and what is wrong", err)
		}
		wait(time.Minute)
		if got := log.Count("level=ERROR"); got != 1 {
			t.Errorf("it was logged %d times in a minute; want once", got)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "a.yaml"), manifest("one", "1"))
		wait(inForce)
		if err := l.Ready(); err != nil {
			t.Errorf("Ready() = %v", err)
		}
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		wait(inForce)
		if got := value(t, l.Snapshot(), "one"); got != "1" {
			t.Errorf("when the directory is away the template gives %q; want what it last had", got)
		}
	})
}

func TestFileThatCannotBeReadIsAnErrorOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), manifest("one", "1"))
		write(t, filepath.Join(dir, "b.yaml"), manifest("two", "2"))
		l, _ := running(t, store.Directory(dir))
		wait(inForce)
		broken := filepath.Join(dir, "b.yaml")
		if err := os.Remove(broken); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("nowhere", broken); err != nil {
			t.Fatal(err)
		}
		huge, err := os.Create(filepath.Join(dir, "huge.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := huge.Truncate(1 << 40); err != nil {
			t.Fatal(err)
		}
		if err := huge.Close(); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "a.yaml"), manifest("one", "new"))
		wait(inForce)
		if got := value(t, l.Snapshot(), "one"); got != "new" {
			t.Errorf("beside files that cannot be read a good one gives %q", got)
		}
		if got := value(t, l.Snapshot(), "two"); got != "2" || !strings.Contains(errText(l.Snapshot(), "two"), "b.yaml") {
			t.Errorf("a link to nowhere gives %q, error %q; want the last good version and the file's name", got, errText(l.Snapshot(), "two"))
		}
		if got := errText(l.Snapshot(), huge.Name()); !strings.Contains(got, "is larger than 8388608 bytes") {
			t.Errorf("a file of a terabyte gives the error %q", got)
		}
	})
}
