package templates

import (
	pathpkg "path"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/pillion-dev/pillion/templates/manifest"
	"github.com/pillion-dev/pillion/templates/show"
)

// Verify is the compiled spec.verify of a required template: the changes to its sidecars that the final pod may
// have. The zero value allows none.
type Verify struct {
	images, env, mounts []*regexp.Regexp
	resources, probes   bool
	exec                bool
}

// Verify returns the template's spec.verify.
func (t *Template) Verify() Verify { return t.verify }

// AllowsImage reports whether a sidecar may have the image in place of the rendered one. It reports false for a
// text that is not an image reference, such as a/../b.
func (v Verify) AllowsImage(image string) bool {
	_, err := reference.Parse(image)
	return err == nil && anyMatches(v.images, image)
}

// AllowsEnv reports whether another webhook may add or change the variable of a
// sidecar.
func (v Verify) AllowsEnv(name string) bool { return anyMatches(v.env, name) }

// AllowsMount reports whether another webhook may add or change the volume mount of a sidecar at a path, and
// whether other containers may mount there below a mount of the template, or a volume of it. It reports false
// for a path with //, . or .. in it, or with a / at its end.
func (v Verify) AllowsMount(mountPath string) bool {
	return pathpkg.Clean(mountPath) == mountPath && anyMatches(v.mounts, mountPath)
}

// AllowsResources reports whether another webhook may change a sidecar's resources.
func (v Verify) AllowsResources() bool { return v.resources }

// AllowsProbes reports whether another webhook may change a sidecar's probes.
func (v Verify) AllowsProbes() bool { return v.probes }

// AllowsExec reports whether the template's admission policy lets exec and attach into its sidecars pass.
func (v Verify) AllowsExec() bool { return v.exec }

func anyMatches(patterns []*regexp.Regexp, text string) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(text) })
}

// ImageExpression returns the regular expression for a pattern of spec.verify.images, without anchors.
func ImageExpression(pattern string) string { return expressionOf(pattern, withinSlash) }

// expressionOf returns the expression of a pattern: ** matches any text, and * the texts that star matches.
func expressionOf(pattern, star string) string {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*\*`, anyText)
	return strings.ReplaceAll(quoted, `\*`, star)
}

// pattern compiles a pattern to an expression for a whole text.
func pattern(text, star string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)\A` + expressionOf(text, star) + `\z`)
}

const (
	anyText     = `.*`
	withinSlash = `[^/]*`
)

// verification compiles spec.verify.
func (c *compiler) verification(at *manifest.Path) Verify {
	declared := c.spec.Verify
	if declared == nil {
		return Verify{}
	}
	if !c.spec.Required && c.spec.Canary == nil { // the stable template of a canary has required
		c.problem(at, "is only for required templates")
	}
	if len(declared.Images) == 0 && declared.Allow == nil {
		c.problem(at.Field("images"), "is missing; write patterns such as registry.example.com/team/*, or remove verify: then only the image that the template renders is allowed")
	}
	v := Verify{images: c.patterns(declared.Images, withinSlash, imagePatternMistake, at.Field("images"))}
	if allow := declared.Allow; allow != nil {
		at := at.Field("allow")
		if len(allow.Env)+len(allow.VolumeMounts) == 0 && !allow.Resources && !allow.Probes && !allow.Exec {
			c.problem(at, "allows nothing; write env, volumeMounts, resources, probes or exec, or remove it")
		}
		v.env = c.patterns(allow.Env, anyText, envPatternMistake, at.Field("env"))
		v.mounts = c.patterns(allow.VolumeMounts, withinSlash, mountPatternMistake, at.Field("volumeMounts"))
		v.resources, v.probes, v.exec = allow.Resources, allow.Probes, allow.Exec
	}
	return v
}

// patterns compiles a list of patterns. mistake describes the mistake in a pattern, "" for a valid one.
func (c *compiler) patterns(list []string, star string, mistake func(string) string, at *manifest.Path) []*regexp.Regexp {
	var compiled []*regexp.Regexp
	for i, text := range list {
		wrong := mistake(text)
		if strings.Contains(text, "***") {
			wrong = "has more than two * in a row; write * or **"
		}
		if wrong != "" {
			c.problem(at.Item(i), show.Value(text)+" "+wrong)
			continue
		}
		compiled = append(compiled, pattern(text, star))
	}
	return compiled
}

// imagePatternLetters are the letters of references to images, and *.
var imagePatternLetters = regexp.MustCompile(`\A[A-Za-z0-9._:/@+*\[\]-]+\z`)

func imagePatternMistake(text string) string {
	switch {
	case strings.Trim(text, "*/:@") == "":
		return "lets any image through; write a pattern such as registry.example.com/team/*"
	case !imagePatternLetters.MatchString(text):
		return "matches no image; write an image, in which * stands for text without / and ** for any text"
	case !isCleanPath(text):
		return "matches no image, because an image has no empty part and no . or .. between slashes"
	}
	return ""
}

func envPatternMistake(text string) string {
	switch {
	case strings.Trim(text, "*") == "":
		return "lets any variable through, LD_PRELOAD too; write a name, or a pattern such as OTEL_*"
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '=' }):
		return "matches no variable; write a name, in which * stands for any text"
	}
	return ""
}

func mountPatternMistake(text string) string {
	switch {
	case !strings.HasPrefix(text, "/"):
		return "matches no mount; write a path that begins with /, in which * stands for text without / and ** for any text"
	case strings.Trim(text, "*/") == "":
		return "lets mounts in anywhere, over the sidecar's program too; write a pattern such as /etc/ssl/*"
	case !isCleanPath(text[1:]) || strings.Contains(text, ":"):
		return "matches no mount, because a path there has no colon, no empty part, and no . or .. between slashes"
	}
	return ""
}

// isCleanPath reports whether no part between slashes is empty, . or ..
func isCleanPath(text string) bool {
	return !slices.ContainsFunc(strings.Split(text, "/"), func(part string) bool { return part == "" || part == "." || part == ".." })
}
