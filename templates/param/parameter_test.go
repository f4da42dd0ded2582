package param

import "testing"

func TestNamesInKebabCase(t *testing.T) {
	for camel, want := range map[string]string{"image": "image", "logLevel": "log-level", "caURL": "ca-url", "proxyURLPath": "proxy-url-path", "a1B": "a1-b", "oauth2Proxy": "oauth2-proxy"} {
		if got := kebab(camel); got != want {
			t.Errorf("%s: %s, want %s", camel, got, want)
		}
	}
}
