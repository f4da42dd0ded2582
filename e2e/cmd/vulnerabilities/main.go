// Command vulnerabilities runs govulncheck, the module's tool of that name, over the module
// in the current folder, where the database of known vulnerabilities can be reached:
//
//	vulnerabilities [-wait 3s] [PATTERN…]
//
// The database is that of $GOVULNDB, an https or file URL; by default https://vuln.go.dev.
// Where it cannot be reached within the wait, the command says so in one line, and succeeds.
// Otherwise the output and the exit code are those of govulncheck: 3 if the module calls
// something vulnerable.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const defaultDatabase = "https://vuln.go.dev"

func main() {
	wait := flag.Duration("wait", 3*time.Second, "how long the database may take to answer")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *wait)
	database := cmp.Or(os.Getenv("GOVULNDB"), defaultDatabase)
	err := reach(ctx, database)
	cancel()
	if err != nil {
		fmt.Printf("govulncheck is left out: the database %s cannot be reached: %v\n", database, err)
		return
	}
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	cmd := exec.Command("go", append([]string{"tool", "govulncheck", "-db", database}, patterns...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulnerabilities: running govulncheck:", err)
		os.Exit(1)
	}
}

// index is a small file that every database has.
const index = "index/db.json"

// reach returns nil if the database answers.
func reach(ctx context.Context, database string) error {
	at, err := url.Parse(database)
	if err != nil {
		return err
	}
	if at.Scheme == "file" {
		_, err := os.Stat(filepath.Join(filepath.FromSlash(at.Path), filepath.FromSlash(index)))
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(database, "/")+"/"+index, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", index, response.Status)
	}
	return nil
}
