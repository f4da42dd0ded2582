package clash

import (
	"fmt"
	"slices"

	"github.com/pillion-dev/pillion/templates/podschema"
)

const (
	another  = "change one of the two"
	takeOver = another + `, or write $onConflict: Overwrite at the template's port if it is meant to take the port over`
)

// address is a port with its protocol, and on a node its IP.
type address struct{ port, protocol string }

// onHost are the holders of a host port: by IP, and one of any IP.
type onHost struct {
	byIP map[string]holder
	some *holder // the first of any IP
	all  *holder // the one that means every IP
}

// ports finds clashes of ports. Containers of a pod share their ports, but for init
// containers that are over when the next one starts.
func (f *finder) ports() *Error {
	id, _ := podschema.At("spec.containers[].ports").Identity()
	listening, hosts, named := map[address]holder{}, map[address]*onHost{}, map[address]holder{}
	return f.containers(func(list, name string, container map[string]any, running bool) *Error {
		own := map[string]holder{} // by the port's name
		for _, item := range items(container["ports"]) {
			key, ok := id.Key(item)
			if !ok {
				continue
			}
			port := object(item)
			protocol, _ := port["protocol"].(string)
			if protocol == "" {
				protocol = "TCP"
			}
			of := func(field string) holder {
				return holder{list: list, container: name, key: key, item: port, templates: f.owners(list, name, "ports", key, field)}
			}
			if e := f.nameInContainer(own, of("name"), port["name"]); e != nil {
				return e
			}
			if !running {
				continue
			}
			if e := f.hostPort(hosts, of("hostPort"), port, protocol); e != nil {
				return e
			}
			if e := f.listener(listening, of(""), address{text(port["containerPort"]), protocol}, id); e != nil {
				return e
			}
			if e := f.nameInPod(named, of("name"), port["name"], protocol, id); e != nil {
				return e
			}
		}
		return nil
	})
}

// nameInContainer finds a name that two ports of one container have, which the API refuses.
func (f *finder) nameInContainer(own map[string]holder, h holder, v any) *Error {
	name, _ := v.(string)
	if name == "" {
		return nil
	}
	first, have := own[name]
	if !have {
		own[name] = h
		return nil
	}
	if !first.ours() && !h.ours() {
		return nil
	}
	return f.fault(first, h, "name", name, fmt.Sprintf("another port of %%s has the name %s, too, and names of ports must be unique", podschema.Show(name)), another)
}

// hostPort finds a port of the node that two containers want.
func (f *finder) hostPort(hosts map[address]*onHost, h holder, port map[string]any, protocol string) *Error {
	number := text(port["hostPort"])
	if number == "" || number == "0" {
		return nil
	}
	ip, _ := port["hostIP"].(string)
	at := address{number, protocol}
	host := hosts[at]
	if host == nil {
		host = &onHost{byIP: map[string]holder{}}
		hosts[at] = host
	}
	var other *holder
	switch same, have := host.byIP[ip]; {
	case have:
		other = &same
	case ip == "":
		other = host.some
	default:
		other = host.all
	}
	if host.byIP[ip] = h; host.some == nil {
		host.some = &h
	}
	if ip == "" {
		host.all = &h
	}
	if other == nil || !other.ours() && !h.ours() {
		return nil
	}
	return f.fault(*other, h, "hostPort", number, fmt.Sprintf("%%s has the host port %s/%s, too, and a node can use it only once", number, protocol), another)
}

// listener finds a port that two containers listen on.
func (f *finder) listener(listening map[address]holder, h holder, at address, id podschema.Identity) *Error {
	first, have := listening[at]
	switch {
	case at.port == "":
		return nil
	case !have:
		listening[at] = h
		return nil
	case first.container == h.container, !first.ours() && !h.ours(), f.means(first, h, "ports", id):
		if h.ours() && !first.ours() {
			listening[at] = h // the next one meets a template's, too
		}
		return nil
	}
	return f.fault(first, h, "containerPort", at.port, fmt.Sprintf("%%s has the port %s/%s, too, and the containers of a pod share their ports", at.port, at.protocol), takeOver)
}

// nameInPod finds a name that ports of two containers have. A Service that names the
// port means the first one. If that was the pod's before, and is a template's now, the
// Service's clients reach another container.
func (f *finder) nameInPod(named map[address]holder, h holder, v any, protocol string, id podschema.Identity) *Error {
	name, _ := v.(string)
	at := address{name, protocol}
	first, have := named[at]
	switch {
	case name == "":
		return nil
	case !have:
		named[at] = h
		return nil
	case first.container == h.container, !first.ours() && !h.ours(), f.means(first, h, "ports", id):
		return nil
	case first.ours() && !h.ours():
		return f.fault(first, h, "name", name, fmt.Sprintf("a port of %%s has the name %s, too, and a Service that names it would reach this one instead", podschema.Show(name)), takeOver)
	}
	warning := fmt.Sprintf("template %s: the port name %s of container %s is one of container %s, too, and a Service that names it reaches the latter", h.templates[0], podschema.Show(name), h.container, first.container)
	if !slices.Contains(f.warnings, warning) {
		f.warnings = append(f.warnings, warning)
	}
	return nil
}

// text returns a number as it is written.
func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
