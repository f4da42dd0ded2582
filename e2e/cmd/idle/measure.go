package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// memory is what a process takes, in MiB.
type memory struct {
	// resident is what is in memory now, and peak the most that ever was. file is the part
	// of resident that the kernel can read again from a file: the binary.
	resident, peak, file float64
	// heap is what the program has on its heap, garbage included.
	heap float64
	// cpu is how many seconds of CPU the process has taken since its start.
	cpu float64
}

// measure asks the kernel and the process itself.
func measure(ctx context.Context, r ground.Replica) (memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID))
	if err != nil {
		return memory{}, fmt.Errorf("measuring Pillion: %w", err)
	}
	metrics, err := scrape(ctx, r)
	if err != nil {
		return memory{}, err
	}
	m := memory{heap: metrics["go_memstats_heap_alloc_bytes"] / (1 << 20), cpu: metrics["process_cpu_seconds_total"]}
	for line, value := range map[string]*float64{"VmRSS": &m.resident, "VmHWM": &m.peak, "RssFile": &m.file} {
		if *value, err = statusMiB(string(status), line); err != nil {
			return memory{}, err
		}
	}
	return m, nil
}

// statusMiB is a line of a process's status, in MiB.
func statusMiB(status, name string) (float64, error) {
	for line := range strings.Lines(status) {
		var kib float64
		if _, err := fmt.Sscanf(line, name+": %f kB", &kib); err == nil {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("no %s in the status of the process:\n%s", name, status)
}

// scrape returns the sum of each of the replica's metrics, by name.
func scrape(ctx context.Context, r ground.Replica) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Admin.String()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading Pillion's metrics: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading Pillion's metrics: %s", answer.Status)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("reading Pillion's metrics: %w", err)
	}
	return sums(string(text))
}

// sums adds up the values of each metric, whatever its labels.
func sums(text string) (map[string]float64, error) {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[end+1:]), 64)
		if end < 0 || err != nil {
			return nil, fmt.Errorf("reading Pillion's metrics: the line %q", line)
		}
		name, _, _ := strings.Cut(line[:end], "{")
		all[name] += value
	}
	return all, nil
}

// checkInForce returns an error unless all templates are in force: what is not there takes
// no memory.
func (p plan) checkInForce(ctx context.Context, r ground.Replica) error {
	metrics, err := scrape(ctx, r)
	if err != nil {
		return err
	}
	if got := int(metrics["pillion_template_info"]); got != p.templates {
		return fmt.Errorf("%d templates are in force, want %d; the replica's log is %s", got, p.templates, r.Log)
	}
	return nil
}
