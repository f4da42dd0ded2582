// Command cut makes what `go build -overlay` takes to build a Pillion that does not know
// some fields of a pod, as a released one does not know those of the next Kubernetes.
//
// Usage: cut FOLDER FIELD…
//
// It writes overlay.json, and the schema without the fields of these names, into FOLDER.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/pillion-dev/pillion/e2e/ground"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cut FOLDER FIELD…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "cut:", err)
		os.Exit(1)
	}
}

func run(dir string, fields []string) error {
	checkout, err := ground.FindCheckout(".")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	schema := checkout.Path("templates", "podschema", "pod.json")
	text, err := os.ReadFile(schema)
	if err != nil {
		return err
	}
	if text, err = without(text, fields); err != nil {
		return fmt.Errorf("%s: %w", schema, err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{schema: filepath.Join(dir, "pod.json")}})
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "pod.json"), text, 0o600), os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
}

// without is the schema without the fields of these names, each of which it has to have.
func without(schema []byte, names []string) ([]byte, error) {
	var kinds []map[string]any
	if err := json.Unmarshal(schema, &kinds); err != nil {
		return nil, err
	}
	var found []string
	for _, kind := range kinds {
		fields, _ := kind["fields"].(map[string]any)
		for _, name := range names {
			if _, ok := fields[name]; ok {
				delete(fields, name)
				found = append(found, name)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(found, name) {
			return nil, fmt.Errorf("no field %s", name)
		}
	}
	return json.Marshal(kinds)
}
