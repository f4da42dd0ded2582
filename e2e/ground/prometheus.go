package ground

import (
	"context"
	"io"
)

// prometheusPrograms are promtool. Without service discovery of clouds it takes a third of the modules.
var prometheusPrograms = programs{
	title:    "Prometheus",
	dir:      "prometheus/v3",
	versions: "github.com/prometheus/prometheus",
	packages: []string{"github.com/prometheus/prometheus/cmd/promtool"},
	tags:     "remove_all_sd",
}

// Prometheus builds promtool, if it is not built yet, and returns its folder.
func Prometheus(ctx context.Context, c Checkout, out io.Writer) (string, error) {
	dirs, err := build(ctx, c, []programs{prometheusPrograms}, out)
	if err != nil {
		return "", err
	}
	return dirs[0], nil
}
