package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/pillion-dev/pillion/e2e/ground"
	"github.com/pillion-dev/pillion/e2e/measure"
)

// startLimit is how long a replica may take from the start of its process until it is ready.
const startLimit = 1500 * time.Millisecond

// seeStarts notes how long each replica that runs took to become ready.
func (r *run) seeStarts() {
	for _, replica := range r.g.Replicas(ground.Namespace) {
		started, err := processStart(replica.PID)
		if err != nil {
			continue // it ended
		}
		file, err := os.Open(replica.Log)
		if err != nil {
			continue
		}
		if ready := readyIn(bufio.NewScanner(file)); !ready.IsZero() && ready.After(started) {
			key := fmt.Sprintf("%s, process %d", replica.Name, replica.PID)
			if _, seen := r.starts[key]; !seen {
				r.starts[key] = ready.Sub(started)
				fmt.Fprintf(r.out, "  %s was ready %s after its start\n", key, ready.Sub(started).Round(time.Millisecond))
			}
		}
		_ = file.Close()
	}
}

// sayStarts writes the line of the starts.
func (r *run) sayStarts() (wrong []string) {
	var took []time.Duration
	for _, d := range r.starts {
		took = append(took, d)
	}
	if len(took) == 0 {
		return nil
	}
	p50, most := measure.Quantile(took, 0.5), slices.Max(took)
	fmt.Fprintf(r.out, "START n=%d p50_ms=%d max_ms=%d\n", len(took), p50.Milliseconds(), most.Milliseconds())
	if p50 > startLimit {
		return []string{fmt.Sprintf("a replica is ready %s after the start of its process (p50), want %s at most", p50.Round(time.Millisecond), startLimit)}
	}
	return nil
}

// readyIn is when a replica's log, as a kubelet keeps it, says that it is ready.
func readyIn(lines *bufio.Scanner) time.Time {
	for lines.Scan() {
		// 2026-01-02T03:04:05.123456789Z stderr F {"msg":"ready"}
		parts := strings.SplitN(lines.Text(), " ", 4)
		if len(parts) < 4 {
			continue
		}
		var line struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(parts[3]), &line) == nil && line.Msg == "ready" {
			return line.Time
		}
	}
	return time.Time{}
}

// processStart is when a process of this machine started, to 20 ms.
func processStart(pid int) (time.Time, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return time.Time{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return time.Time{}, err
	}
	// The kernel's own time of the boot is to a second only.
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, err
	}
	var up float64
	_, err = fmt.Sscan(string(uptime), &up)
	const ticks = 100 // in a second
	return time.Now().Add(-time.Duration((up - float64(stat.Starttime)/ticks) * float64(time.Second))), err
}
