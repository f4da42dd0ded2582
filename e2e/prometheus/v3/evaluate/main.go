// Evaluate runs PromQL over scrapes with Prometheus' own storage and engine. It reads a request
// from its standard input and writes the results to its standard output, both in JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

// request is the input. Times are Unix times in milliseconds.
type request struct {
	Scrapes []struct {
		At     int64             `json:"at"`
		Labels map[string]string `json:"labels"` // of the target
		Text   string            `json:"text"`
	} `json:"scrapes"`
	Queries          []string `json:"queries"`
	Start, End, Step int64
}

// result is the output for one query.
type result struct {
	Error  string   `json:"error,omitempty"`
	Series []series `json:"series"`
}

type series struct {
	Labels map[string]string `json:"labels"`
	Points [][2]float64      `json:"points"` // time, value; NaN and infinities are left out
}

func main() {
	if err := run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "evaluate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	dir, err := os.MkdirTemp("", "evaluate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := tsdb.Open(dir, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return fmt.Errorf("opening the storage: %w", err)
	}
	defer func() { _ = db.Close() }()
	for _, s := range r.Scrapes {
		if err := store(ctx, db, s.At, s.Labels, s.Text); err != nil {
			return fmt.Errorf("storing the scrape of %v: %w", s.Labels, err)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	results := make([]result, len(r.Queries))
	for i, q := range r.Queries {
		results[i] = ask(ctx, engine, db, q, r)
	}
	return json.NewEncoder(out).Encode(results)
}

// store appends what a scrape says, and up, as Prometheus does.
func store(ctx context.Context, db *tsdb.DB, at int64, target map[string]string, text string) error {
	appender := db.Appender(ctx)
	up := labels.NewBuilder(labels.FromMap(target)).Set("__name__", "up").Labels()
	if _, err := appender.Append(0, up, at, 1); err != nil {
		return err
	}
	parser := textparse.NewPromParser([]byte(text), labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return appender.Commit()
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var own labels.Labels
		parser.Labels(&own)
		b := labels.NewBuilder(own)
		for name, value := range target {
			if taken := own.Get(name); taken != "" {
				b.Set("exported_"+name, taken)
			}
			b.Set(name, value)
		}
		if _, err := appender.Append(0, b.Labels(), at, value); err != nil {
			return err
		}
	}
}

func ask(ctx context.Context, engine *promql.Engine, db *tsdb.DB, q string, r request) result {
	query, err := engine.NewRangeQuery(ctx, db, nil, q, time.UnixMilli(r.Start), time.UnixMilli(r.End), time.Duration(r.Step)*time.Millisecond)
	if err != nil {
		return result{Error: err.Error()}
	}
	defer query.Close()
	matrix, err := query.Exec(ctx).Matrix()
	if err != nil {
		return result{Error: err.Error()}
	}
	var all result
	for _, s := range matrix {
		one := series{Labels: s.Metric.Map()}
		for _, p := range s.Floats {
			if p.F == p.F && p.F < 1e300 && p.F > -1e300 {
				one.Points = append(one.Points, [2]float64{float64(p.T), p.F})
			}
		}
		all.Series = append(all.Series, one)
	}
	return all
}
