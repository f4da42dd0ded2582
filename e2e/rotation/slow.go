package rotation

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// slow is how long a healing may take before the run says what it waited for.
const slow = 500 * time.Millisecond

// explain says of a slow healing which object was late, and which replica wrote what.
func (r *run) explain(what string, damaged time.Time, took time.Duration, steps []string) {
	if took <= slow {
		return
	}
	for _, replica := range r.g.Replicas(ground.Namespace) {
		log, err := os.Open(replica.Log)
		if err != nil {
			steps = append(steps, err.Error())
			continue
		}
		steps = append(steps, writes(log, replica.Name, damaged)...)
		_ = log.Close()
	}
	r.say("  %s: one was healed after %s: %s", what, took.Round(time.Millisecond), strings.Join(steps, "; "))
}

// writes are what a replica's log says that it wrote since then.
func writes(log io.Reader, replica string, since time.Time) []string {
	var found []string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct {
			Time                       time.Time
			Msg, Configuration, Secret string
		}
		// What another library printed is no JSON.
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Time.Before(since) {
			continue
		}
		switch line.Msg {
		case "published the CA bundle":
			found = append(found, fmt.Sprintf("%s wrote %s after %s", replica, line.Configuration, line.Time.Sub(since).Round(time.Millisecond)))
		case "wrote the CA's secret":
			found = append(found, fmt.Sprintf("%s wrote secret %s after %s", replica, line.Secret, line.Time.Sub(since).Round(time.Millisecond)))
		}
	}
	return found
}
