package measure

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// Metric is the sum of a metric of the replica over all series that have the labels, which are
// names and values in turn.
func Metric(ctx context.Context, r ground.Replica, name string, labels ...string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Admin.String()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of %s: %w", r.Name, err)
	}
	defer response.Body.Close()
	sum, err := Sum(response.Body, name, labels...)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of %s: %w", r.Name, err)
	}
	return sum, nil
}

// Sum is the same of metrics in Prometheus's text format.
func Sum(metrics io.Reader, name string, labels ...string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return 0, err
	}
	sum := 0.0
series:
	for _, series := range families[name].GetMetric() {
		has := map[string]string{}
		for _, label := range series.GetLabel() {
			has[label.GetName()] = label.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if has[labels[i]] != labels[i+1] {
				continue series
			}
		}
		sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + series.GetUntyped().GetValue()
	}
	return sum, nil
}

// Usage is what a process takes.
type Usage struct {
	// Resident is what is in memory now, in bytes, and Peak the most that ever was.
	Resident, Peak uint64
	// CPU is how many seconds of CPU the process has taken since its start.
	CPU float64
}

// UsageOf asks the kernel about a process.
func UsageOf(pid int) (Usage, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return Usage{}, err
	}
	stat, err := process.Stat()
	return Usage{Resident: status.VmRSS, Peak: status.VmHWM, CPU: stat.CPUTime()}, err
}
