package nearest

import "testing"

func TestTheNearestName(t *testing.T) {
	known := []string{"log-level", "image", "memory", "cpu"}
	for name, want := range map[string]string{"log-levle": "log-level", "LogLevel": "log-level", "IMAGE": "image", "imge": "image", "cpus": "cpu", "zzzz": "", "": ""} {
		if got, _ := Name(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
