package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, err
	}
	var up float64
	if _, err := fmt.Sscan(string(uptime), &up); err != nil {
		return time.Time{}, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	const startTime, ticks = 19, 100 // the 22nd field, in hundredths of a second since the boot
	if len(fields) <= startTime {
		return time.Time{}, fmt.Errorf("process %d has a strange stat", pid)
	}
	var start float64
	if _, err := fmt.Sscan(fields[startTime], &start); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-time.Duration((up - start/ticks) * float64(time.Second))), nil
}
