package ground

import (
	"context"
	"io"
)

// prometheusPrograms are promtool, and the program that runs PromQL over scrapes. Without service
// discovery of clouds they take a third of the modules.
var prometheusPrograms = programs{
	title:     "Prometheus",
	dir:       "prometheus/v3",
	versions:  "github.com/prometheus/prometheus",
	packages:  []string{"github.com/prometheus/prometheus/cmd/promtool", "./evaluate"},
	tags:      "remove_all_sd",
	variables: func(map[string]string) []string { return nil },
}

// Prometheus builds promtool and evaluate, if they are not built yet, and returns the folder that
// they are in.
func Prometheus(ctx context.Context, c Checkout, out io.Writer) (string, error) {
	dirs, err := build(ctx, c, []programs{prometheusPrograms}, out)
	if err != nil {
		return "", err
	}
	return dirs[0], nil
}
