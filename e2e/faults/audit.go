package faults

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/pillion-dev/pillion/e2e/ground"
)

// calls counts how often API servers called Pillion, or tried to, for pods of the namespace,
// by what they wrote to the audit log from offset on. It returns where the log ends.
func calls(log, namespace string, offset int64) (n int, end int64, err error) {
	file, err := os.Open(log)
	if err != nil {
		return 0, offset, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return 0, offset, err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return n, offset, nil // the last line may be half written
		}
		if err != nil {
			return n, offset, err
		}
		offset += int64(len(line))
		n += callsOf(line, namespace)
	}
}

func callsOf(line, namespace string) int {
	var event struct {
		ObjectRef   struct{ Namespace, Resource string } `json:"objectRef"`
		Annotations map[string]string                    `json:"annotations"`
	}
	if json.Unmarshal([]byte(line), &event) != nil || event.ObjectRef.Resource != "pods" || event.ObjectRef.Namespace != namespace {
		return 0
	}
	n := 0
	for key, value := range event.Annotations {
		if !strings.Contains(key, "webhook.admission.k8s.io/") {
			continue
		}
		// The value names the configuration, or, where a failure let the pod through, the entry.
		if strings.Contains(value, `"configuration":"`+ground.Release+`"`) && strings.HasPrefix(key, "mutation.") || strings.HasPrefix(key, "failed-open.") && strings.Contains(value, ".pillion.dev") {
			n++
		}
	}
	return n
}
