package samples

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// The names of the bundled samples that lint's rules need.
const (
	// Restricted is a pod that keeps to the strictest Pod Security Standard.
	Restricted = "restricted"
	// Windows is a pod for Windows that keeps to it.
	Windows = "windows"
	// Job is the pod of a Job.
	Job = "job"
)

// Sample is a pod to inject a template into, with its namespace.
type Sample struct {
	// Name names the pod in messages.
	Name string
	// Pod is the pod's JSON, numbers kept as json.Number.
	Pod       map[string]any
	Namespace templates.Namespace
}

//go:embed samples.json
var embedded []byte

// Bundled returns the samples that come with this build, in a fixed order.
func Bundled() []Sample {
	var texts []struct {
		Name string          `json:"name"`
		Pod  json.RawMessage `json:"pod"`
	}
	if err := json.Unmarshal(embedded, &texts); err != nil {
		panic(fmt.Sprintf("samples: reading the embedded pods: %v", err))
	}
	all := make([]Sample, len(texts))
	for i, text := range texts {
		pod, err := podschema.DecodeObject(text.Pod)
		if err != nil {
			panic(fmt.Sprintf("samples: reading the embedded pod %s: %v", text.Name, err))
		}
		all[i] = Sample{Name: text.Name, Namespace: templates.Namespace{Name: "shop", Labels: map[string]string{"kubernetes.io/metadata.name": "shop"}}, Pod: pod}
	}
	return all
}
