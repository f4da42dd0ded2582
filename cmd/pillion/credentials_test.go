package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"
)

// A kubelet, or whoever restarts Pillion, writes another token into the file. No request waits a
// minute for it.
func TestATokenThatIsNotAcceptedIsSaidAndReadAnew(t *testing.T) {
	var accepted atomic.Value
	accepted.Store("first")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+accepted.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	var log bytes.Buffer
	c := &credentials{log: slog.New(slog.NewTextHandler(&log, nil))}
	config := &rest.Config{Host: server.URL, BearerToken: "first", BearerTokenFile: file}
	c.watch(config)
	client, err := rest.HTTPClientFor(rest.CopyConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	want := func(why string, status int, refused float64) {
		t.Helper()
		response, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := testutil.ToFloat64(c.Collector()); response.StatusCode != status || got != refused || (c.Err() != nil) != (refused == 1) {
			t.Errorf("%s: HTTP %d, the metric is %v, %v; want %d, %v", why, response.StatusCode, got, c.Err(), status, refused)
		}
	}
	want("at first", http.StatusOK, 0)
	accepted.Store("second")
	want("the account is another one", http.StatusUnauthorized, 1)
	want("and stays so", http.StatusUnauthorized, 1)
	if n := strings.Count(log.String(), "does not accept Pillion's token"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, log.String())
	}
	write("second")
	want("the token that the request before has read", http.StatusUnauthorized, 1)
	want("the new token", http.StatusOK, 1)
}

// For as long as one API server still takes an old token, the state does not change with each answer.
func TestAPIServersThatDisagreeAboutATokenAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &credentials{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 5 {
			c.answered(http.StatusUnauthorized)
			time.Sleep(time.Second)
			c.answered(http.StatusForbidden)
			if c.Err() == nil {
				t.Fatal("one API server accepts the token, and nothing is said any more")
			}
		}
		time.Sleep(acceptedFor + time.Second)
		if c.Err() == nil {
			t.Error("nobody has answered since, and nothing is said any more")
		}
		c.answered(http.StatusOK)
		if err := c.Err(); err != nil || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("%v, and the log:\n%s", err, log.String())
		}
	})
}
