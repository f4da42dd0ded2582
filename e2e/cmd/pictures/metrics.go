package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pillion-dev/pillion/e2e/ground"
)

const (
	rounds = 75
	// lowest is the row of the dashboard's grid at which the picture ends.
	lowest = 36
)

// A panel is what the picture needs of a panel of the dashboard.
type panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit, NoValue string
			Decimals      *int // 0 where there is one
			Thresholds    struct {
				Steps []struct {
					Color string
					Value *float64
				}
			}
			Custom struct {
				ScaleDistribution struct{ Type string }
			}
		}
		Overrides []struct {
			Matcher    struct{ Options string }
			Properties []struct {
				Value json.RawMessage
			}
		}
	}
	Targets []struct{ Expr, LegendFormat string }

	series []series
}

// A series is a line of a panel, by the name in its legend.
type series struct {
	Labels map[string]string
	Points [][2]float64 // Unix time in milliseconds, value
	name   string
}

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// watch creates pods for a while, and returns the panels of the dashboard with the answers to their
// queries over scrapes of each second.
func watch(ctx context.Context, g ground.Ground, checkout ground.Checkout) ([]panel, error) {
	var dashboard struct{ Panels []panel }
	data, err := os.ReadFile(checkout.Path("charts/pillion/files/dashboard.json"))
	if err == nil {
		err = json.Unmarshal(data, &dashboard)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the dashboard: %w", err)
	}
	type scrape struct {
		At     int64             `json:"at"`
		Labels map[string]string `json:"labels"`
		Text   string            `json:"text"`
	}
	var ask struct {
		Scrapes          []scrape `json:"scrapes"`
		Queries          []string `json:"queries"`
		Start, End, Step int64
	}
	for i := range rounds {
		second := time.After(time.Second)
		create(ctx, g, i)
		for _, r := range g.Replicas(ground.Namespace) {
			text, err := metrics(ctx, r)
			if err != nil {
				return nil, err
			}
			labels := map[string]string{"job": "pillion-metrics", "namespace": ground.Namespace, "pod": r.Name, "instance": r.Admin.String()}
			ask.Scrapes = append(ask.Scrapes, scrape{time.Now().UnixMilli(), labels, text})
		}
		<-second
	}
	ask.Start, ask.End, ask.Step = ask.Scrapes[0].At+10_000, ask.Scrapes[len(ask.Scrapes)-1].At, 1000
	variables := strings.NewReplacer("$namespace", ".*", "$job", ".*", "$__rate_interval", "10s", "$__range", "75s", "$__interval", "1s")
	for _, p := range dashboard.Panels {
		for _, t := range p.Targets {
			ask.Queries = append(ask.Queries, variables.Replace(t.Expr))
		}
	}
	var answers []struct {
		Error  string
		Series []series
	}
	if err := evaluate(ctx, checkout, ask, &answers); err != nil {
		return nil, err
	}
	for i := range dashboard.Panels {
		p := &dashboard.Panels[i]
		for _, t := range p.Targets {
			for _, s := range answers[0].Series {
				s.name = legendLabel.ReplaceAllStringFunc(t.LegendFormat, func(label string) string { return s.Labels[strings.Trim(label, "{}")] })
				p.series = append(p.series, s)
			}
			if answers[0].Error != "" {
				return nil, fmt.Errorf("asking for the panel %s: %s", p.Title, answers[0].Error)
			}
			answers = answers[1:]
		}
	}
	return dashboard.Panels, nil
}

// create creates pods of round i: more at some times than at others, one of ten with a wrong parameter.
func create(ctx context.Context, g ground.Ground, i int) {
	var pods strings.Builder
	for j := range 2 + (i/8)%4 {
		annotations := "{}"
		switch (i*3 + j) % 10 {
		case 3:
			annotations = `{fluent-bit.pillion.dev/log-level: loud}`
		case 6:
			annotations = `{pillion.dev/inject: "false"}`
		}
		fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-%d-%d, namespace: shop, annotations: %s}\nspec: {containers: [{name: web, image: nginx}]}\n", i, j, annotations)
	}
	cmd := exec.CommandContext(ctx, g.Tool("kubectl"), "create", "-f", "-")
	cmd.Env, cmd.Stdin = g.Env(), strings.NewReader(pods.String())
	_ = cmd.Run() // it fails where a pod is refused
}

func metrics(ctx context.Context, r ground.Replica) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Admin.String()+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// evaluate has Prometheus' own engine answer queries over scrapes.
func evaluate(ctx context.Context, checkout ground.Checkout, ask, answers any) error {
	dir, err := ground.Prometheus(ctx, checkout, os.Stdout)
	if err != nil {
		return err
	}
	input, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "evaluate"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("evaluating the dashboard's queries: %w", err)
	}
	return json.Unmarshal(out, answers)
}
