package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/controller/waiting"
)

const (
	// pollInterval is how often a directory is read. A change counts when two
	// readings in a row agree, so it is in force after at most twice this long.
	// Reading beats file system events here: they say nothing of what is behind the
	// symbolic links of a mounted ConfigMap, and do not exist on every file system.
	pollInterval = 250 * time.Millisecond
	// firstInterval is the time between the first two readings.
	firstInterval = 25 * time.Millisecond
	// maxFileBytes is the size of the largest file that is read. It may hold several
	// manifests, each of which has its own bound.
	maxFileBytes = 8 << 20
)

// Directory returns a source of the files NAME.yaml, NAME.yml and NAME.json in a
// directory, which may be a mounted ConfigMap. Folders in it and hidden files are
// left out. A file that is being written takes part when it no longer changes.
func Directory(path string) Source { return &directory{path: path} }

type directory struct{ path string }

func (d *directory) Name() string { return "directory " + d.path }

// Run reads the directory again and again, and reports what two readings in a row
// agree on, once.
func (d *directory) Run(ctx context.Context, report func(Report)) {
	var last, reported *Report
	for interval := firstInterval; ; interval = pollInterval {
		got := d.read()
		if got.same(last) && !got.same(reported) {
			report(got)
			reported = &got
		}
		last = &got
		if !waiting.For(ctx, interval) {
			return
		}
	}
}

func (d *directory) read() Report {
	files, err := os.ReadDir(d.path)
	if err != nil {
		return Report{Err: fmt.Errorf("reading the directory of templates: %w", err)}
	}
	var units []Unit
	for _, f := range files {
		if !isManifest(f.Name()) {
			continue
		}
		if u, ok := readUnit(filepath.Join(d.path, f.Name())); ok {
			units = append(units, u)
		}
	}
	return Report{Units: units}
}

func isManifest(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// readUnit reads a file, and reports whether it is one. What is wrong with a single
// file is said of that file, so that the others stay in use.
func readUnit(path string) (Unit, bool) {
	u := Unit{Source: path, From: FromValues}
	// A pipe would be waited for, so what it is comes first.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		u.Err = fmt.Errorf("reading a template's file: %w", err)
		return u, true
	case info.IsDir():
		return u, false
	case !info.Mode().IsRegular():
		u.Err = fmt.Errorf("reading a template's file: %s is not a regular file", path)
		return u, true
	}
	u.Data, u.Err = readBounded(path)
	return u, true
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a template's file: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading a template's file: %w", err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("reading a template's file: %s is larger than %d bytes", path, maxFileBytes)
	}
	return data, nil
}

// same reports whether another report says the same. A report that is nil says nothing.
func (r Report) same(other *Report) bool {
	return other != nil && errorText(r.Err) == errorText(other.Err) && slices.EqualFunc(r.Units, other.Units, func(a, b Unit) bool {
		return a.Source == b.Source && errorText(a.Err) == errorText(b.Err) && bytes.Equal(a.Data, b.Data)
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
