package manifests

import (
	"fmt"
	"io"
	"os"

	"github.com/pillion-dev/pillion/injector/workload"
)

// maxFile bounds the bytes of one file.
const maxFile = 64 << 20

// ReadFile reads a file, or stdin for "-".
func ReadFile(stdin io.Reader, name string) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading %s: it is larger than %d bytes", name, maxFile)
	}
	return data, nil
}

// ReadDocuments reads the objects of a file, or of stdin for "-".
func ReadDocuments(stdin io.Reader, name string) ([]workload.Document, error) {
	data, err := ReadFile(stdin, name)
	if err != nil {
		return nil, err
	}
	documents, err := workload.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return documents, nil
}

// ChangePods is [workload.Change] for a document of a file. Errors name the file and the
// document, if there is a file.
func ChangePods(file string, d workload.Document, change func(workload.Pod) (map[string]any, error)) (map[string]any, int, error) {
	object, pods, err := workload.Change(d.Object, change)
	if err != nil && file != "" {
		err = fmt.Errorf("%s: document %d: %w", file, d.Number, err)
	}
	return object, pods, err
}
