package main

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	unitX, unitY = 50.0, 34.0 // of the dashboard's grid
	gap          = 8.0
)

// The colours that the dashboard names, as Grafana's dark theme has them, and those of its classic
// palette.
var (
	colours = map[string]string{"green": "#73bf69", "blue": "#5794f2", "orange": "#ff9830", "red": "#f2495c"}
	filled  = map[string]string{"green": "#37872d", "blue": "#1f60c4", "orange": "#b8560f", "red": "#c4162a", "": "#5c5f66"}
	palette = []string{"#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9"}
)

// A box is where a panel draws.
type box struct {
	*strings.Builder
	x, y, w, h float64
}

func (b box) text(x, y, size float64, colour, anchor, text string) {
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" fill=\"%s\" text-anchor=\"%s\">%s</text>\n", b.x+x, b.y+y, size, colour, anchor, html.EscapeString(text))
}

// drawDashboard returns an SVG of the panels that are above the lowest row.
func drawDashboard(panels []panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="title" font-family="system-ui, sans-serif">
<title id="title">The dashboard of Pillion: an overview of twelve numbers, then panels of new pods, refusals, failures, reviews, latency and injections.</title>
<rect width="100%%" height="100%%" rx="10" fill="#111217"/>
`, 24*unitX+gap, lowest*unitY+gap)
	for _, p := range panels {
		g := p.GridPos
		if g.Y+g.H > lowest {
			continue
		}
		d := box{&b, float64(g.X)*unitX + gap, float64(g.Y)*unitY + gap, float64(g.W)*unitX - gap, float64(g.H)*unitY - gap}
		if p.Type == "row" {
			if g.Y < lowest-1 {
				d.text(4, 19, 15, "#ccccdc", "start", "▾ "+p.Title)
			}
			continue
		}
		fill := "#181b1f"
		if p.Type == "stat" {
			fill = filled[p.colour()]
		}
		fmt.Fprintf(&b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"3\" fill=\"%s\" stroke=\"#2c2f36\"/>\n", d.x, d.y, d.w, d.h, fill)
		d.text(10, 20, 13, "#ffffff", "start", p.Title)
		switch {
		case p.Type == "stat":
			d.text(d.w/2, 66, 30, "#ffffff", "middle", p.shown())
		case len(p.series) == 0:
			d.text(d.w/2, d.h/2+10, 14, "#8e9199", "middle", p.FieldConfig.Defaults.NoValue)
		case p.Type == "heatmap":
			p.drawHeatmap(d)
		case p.Type == "timeseries":
			p.drawLines(d)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// last returns the last value of a stat.
func (p panel) last() (float64, bool) {
	if len(p.series) == 0 || len(p.series[0].Points) == 0 {
		return 0, false
	}
	points := p.series[0].Points
	return points[len(points)-1][1], true
}

func (p panel) shown() string {
	if value, ok := p.last(); ok {
		if p.FieldConfig.Defaults.Decimals != nil {
			value = math.Round(value)
		}
		return format(value, p.FieldConfig.Defaults.Unit)
	}
	return p.FieldConfig.Defaults.NoValue
}

// colour returns the name of the colour of a stat: that of the highest threshold below its value.
func (p panel) colour() (name string) {
	value, ok := p.last()
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if ok && (step.Value == nil || value >= *step.Value) {
			name = step.Color
		}
	}
	return name
}

// colourOf returns the colour of a series: that which the dashboard says, or the palette's next.
func (p panel) colourOf(i int) string {
	for _, o := range p.FieldConfig.Overrides {
		var value struct{ FixedColor string }
		if o.Matcher.Options == p.series[i].name && json.Unmarshal(o.Properties[0].Value, &value) == nil && colours[value.FixedColor] != "" {
			return colours[value.FixedColor]
		}
	}
	return palette[i%len(palette)]
}

// format writes a value as Grafana does in its unit.
func format(value float64, unit string) string {
	round := func(v float64, digits int) string {
		return strconv.FormatFloat(math.Round(v*math.Pow10(digits))/math.Pow10(digits), 'f', -1, 64)
	}
	if suffix, ok := strings.CutPrefix(unit, "suffix:"); ok {
		return round(value, 1) + suffix
	}
	switch unit {
	case "percentunit":
		return round(value*100, 1) + "%"
	case "s":
		for _, of := range []struct {
			seconds float64
			name    string
		}{{86400, " days"}, {3600, " hours"}, {60, " min"}, {1, " s"}, {1e-3, " ms"}} {
			if value >= of.seconds {
				return round(value/of.seconds, 1) + of.name
			}
		}
		return round(value*1e6, 0) + " µs"
	}
	return round(value, 1)
}

// frame draws the axes of a panel, and returns where a point is.
func (p panel) frame(d box, low, high float64, ticks []float64, log bool, unit string) func(at, value float64) (x, y float64) {
	const left, right, top, bottom = 58.0, 12.0, 32.0, 46.0
	from, to := math.Inf(1), math.Inf(-1)
	for _, s := range p.series {
		if len(s.Points) > 0 {
			from, to = min(from, s.Points[0][0]), max(to, s.Points[len(s.Points)-1][0])
		}
	}
	scale := func(v float64) float64 { return v }
	if log {
		scale = math.Log10
	}
	point := func(at, value float64) (float64, float64) {
		share := (scale(value) - scale(low)) / (scale(high) - scale(low))
		return d.x + left + (d.w-left-right)*(at-from)/(to-from), d.y + d.h - bottom - (d.h-top-bottom)*share
	}
	for _, tick := range ticks {
		_, y := point(from, tick)
		fmt.Fprintf(d, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#2c2f36\"/>\n", d.x+left, y, d.x+d.w-right)
		d.text(left-6, y-d.y+4, 11, "#9da0a8", "end", format(tick, unit))
	}
	for i := range 4 {
		at := from + (to-from)*float64(i)/4
		x, _ := point(at, high)
		d.text(x-d.x, d.h-bottom+15, 11, "#9da0a8", "middle", time.UnixMilli(int64(at)).UTC().Format("15:04:05"))
	}
	return point
}

// legend draws the names below a panel.
func (p panel) legend(d box) {
	x := 12.0
	for i, s := range p.series {
		fmt.Fprintf(d, "<path d=\"M%.1f %.1fh12\" stroke=\"%s\" stroke-width=\"3\"/>\n", d.x+x, d.y+d.h-13, p.colourOf(i))
		d.text(x+15, d.h-9, 10.5, "#ccccdc", "start", s.name)
		x += 23 + 5.9*float64(len(s.name))
	}
}

func (p panel) drawLines(d box) {
	low, high := math.Inf(1), 0.0
	for _, s := range p.series {
		for _, point := range s.Points {
			high = max(high, point[1])
			if point[1] > 0 {
				low = min(low, point[1])
			}
		}
	}
	log := p.FieldConfig.Defaults.Custom.ScaleDistribution.Type == "log" && high > 0
	var ticks []float64
	if log {
		low, high = math.Pow10(int(math.Floor(math.Log10(low)))), math.Pow10(int(math.Ceil(math.Log10(high))))
		for tick := low; tick <= high*1.01; tick *= 10 {
			ticks = append(ticks, tick)
		}
	} else {
		low, high = 0, max(high, 1)
		step := math.Pow10(int(math.Floor(math.Log10(high))))
		for _, n := range []float64{1, 2, 5} {
			if high/(step*n) <= 5 {
				step *= n
				break
			}
		}
		high = math.Ceil(high/step) * step
		for tick := 0.0; tick <= high*1.001; tick += step {
			ticks = append(ticks, tick)
		}
	}
	point := p.frame(d, low, high, ticks, log, p.FieldConfig.Defaults.Unit)
	for i, s := range p.series {
		var path strings.Builder
		for _, v := range s.Points {
			if log && v[1] <= 0 {
				continue
			}
			x, y := point(v[0], v[1])
			command := "L"
			if path.Len() == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, x, y)
		}
		fmt.Fprintf(d, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", &path, p.colourOf(i))
	}
	p.legend(d)
}

// drawHeatmap draws how many observations are in each bucket at each time. The series are cumulative
// buckets.
func (p panel) drawHeatmap(d box) {
	bound := func(s series) float64 {
		v, err := strconv.ParseFloat(s.Labels["le"], 64)
		if err != nil {
			return math.Inf(1)
		}
		return v
	}
	buckets := slices.SortedFunc(slices.Values(p.series), func(a, b series) int { return int(math.Copysign(1, bound(a)-bound(b))) })
	buckets = slices.DeleteFunc(buckets, func(s series) bool { return math.IsInf(bound(s), 1) })
	low, high := bound(buckets[0])/2, bound(buckets[len(buckets)-1])
	var ticks []float64
	for tick := 1e-4; tick <= high; tick *= 10 {
		ticks = append(ticks, tick)
	}
	point := p.frame(d, low, high, ticks, true, "s")
	counts, most := map[[2]int]float64{}, 0.0
	for i, s := range buckets {
		for j, v := range s.Points {
			n := v[1]
			if i > 0 && j < len(buckets[i-1].Points) {
				n -= buckets[i-1].Points[j][1]
			}
			counts[[2]int{i, j}], most = n, max(most, n)
		}
	}
	below := low
	for i, s := range buckets {
		for j := 0; j+1 < len(s.Points); j++ {
			n := counts[[2]int{i, j}]
			if n < 0.01 {
				continue
			}
			x, top := point(s.Points[j][0], bound(s))
			next, bottom := point(s.Points[j+1][0], below)
			fmt.Fprintf(d, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#ff9830\" opacity=\"%.2f\"/>\n", x, top+1, max(next-x-0.5, 0.5), bottom-top-1, 0.15+0.85*math.Sqrt(n/most))
		}
		below = bound(s)
	}
}
