package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestADatabaseIsReachedThatAnswersInTime(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good/index/db.json":
			_, _ = w.Write([]byte(`{"modified":"2026-01-01T00:00:00Z"}`))
		case "/slow/index/db.json":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	defer close(release)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "index"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index", "db.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
	for database, reached := range map[string]bool{
		server.URL + "/good": true, server.URL + "/good/": true, server.URL + "/other": false, server.URL + "/slow": false, file: true, file + "/none": false,
		"http://127.0.0.1:1": false, "ftp://example.com": false, "": false, "%": false,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		began := time.Now()
		err := reach(ctx, database)
		cancel()
		if (err == nil) != reached || time.Since(began) > 5*time.Second {
			t.Errorf("%q: %v after %s", database, err, time.Since(began))
		}
	}
}
