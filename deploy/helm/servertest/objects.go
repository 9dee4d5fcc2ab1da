//go:build linux

package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// object is what the tests read of Kubernetes objects.
type object struct {
	Kind     string
	Metadata struct {
		Name, UID, DeletionTimestamp string
		Labels                       map[string]string
	}
	Spec struct {
		Replicas, MinReplicas *int
		NodeName              string
	}
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status string }
	}
}

// ready is whether a Pod counts as ready: a Pod that is being deleted does not.
func (o *object) ready() bool {
	return o.Metadata.DeletionTimestamp == "" && slices.ContainsFunc(o.Status.Conditions, func(c struct{ Type, Status string }) bool {
		return c.Type == "Ready" && c.Status == "True"
	})
}

// get lists the objects of a namespace that have the labels.
func (c *controlPlane) get(ctx context.Context, namespace, kinds, labels string) ([]object, error) {
	out, err := c.kubectl(ctx, "-n", namespace, "get", kinds, "-l", labels, "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Items []object }
	if err := json.Unmarshal([]byte(out.stdout), &list); err != nil {
		return nil, fmt.Errorf("answer of kubectl get %s: %w", kinds, err)
	}
	return list.Items, nil
}

// watch follows how many of the Pods with the labels are ready, event by event, until it is stopped.
type watch struct {
	plane  *controlPlane
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}

	mu     sync.Mutex
	pods   map[string]bool // name: ready
	fewest int             // ready at a time, since all were
	most   int             // Pods at a time, ready or not
}

// watchPods returns once it has seen `all` ready Pods.
func (c *controlPlane) watchPods(ctx context.Context, namespace, labels string, all int) (*watch, error) {
	w := &watch{plane: c, pods: map[string]bool{}, done: make(chan struct{}), fewest: -1}
	w.cmd = exec.CommandContext(ctx, filepath.Join(c.programs, "kubectl"), "--kubeconfig", c.kubeconfig(), "-n", namespace,
		"get", "pods", "-l", labels, "--watch", "--output-watch-events", "-o", "json")
	w.cmd.Stderr = &w.stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("watch Pods: %w", err)
	}
	go w.follow(out, all)
	if err := w.seen(ctx, all); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

func (w *watch) follow(events io.Reader, all int) {
	defer close(w.done)
	for decoder := json.NewDecoder(events); ; {
		var event struct {
			Type   string
			Object object
		}
		if decoder.Decode(&event) != nil { // the watch was stopped, or has ended, which stop tells
			return
		}
		w.mu.Lock()
		if event.Type == "DELETED" {
			delete(w.pods, event.Object.Metadata.Name)
		} else {
			w.pods[event.Object.Metadata.Name] = event.Object.ready()
		}
		ready := 0
		for _, is := range w.pods {
			if is {
				ready++
			}
		}
		if w.fewest < 0 && ready == all {
			w.fewest = ready
		}
		w.fewest, w.most = min(w.fewest, ready), max(w.most, len(w.pods))
		w.mu.Unlock()
	}
}

// seen waits until there were as few ready Pods as that, after all were: events take their time.
func (w *watch) seen(ctx context.Context, few int) error {
	return w.plane.eventually(ctx, 30*time.Second, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.fewest < 0 || w.fewest > few {
			return fmt.Errorf("the watch has not seen %d ready Pods, but %v", few, w.pods)
		}
		return nil
	})
}

// stop ends the watch and returns the fewest Pods that were ready at a time, and the most that there were.
func (w *watch) stop() (fewest, most int, err error) {
	select {
	case <-w.done:
		err = fmt.Errorf("the watch of Pods ended before its time: %s", w.stderr.String())
	default:
	}
	w.cmd.Process.Kill()
	<-w.done
	w.cmd.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fewest, w.most, err
}

// resources are the kinds of objects that a server can list.
type resources struct{ namespaced, cluster string } // joined by commas

func (c *controlPlane) resources(ctx context.Context) (resources, error) {
	var r resources
	for _, kind := range []struct {
		flag string
		list *string
	}{{"--namespaced=true", &r.namespaced}, {"--namespaced=false", &r.cluster}} {
		out, err := c.kubectl(ctx, "api-resources", "--verbs=list", "--output=name", kind.flag)
		if err != nil {
			return r, err
		}
		names := slices.DeleteFunc(strings.Fields(out.stdout), func(name string) bool {
			// Events outlive what they tell of. The status of components asks ports that no program here has.
			return name == "events" || name == "events.events.k8s.io" || name == "componentstatuses"
		})
		*kind.list = strings.Join(names, ",")
	}
	return r, nil
}

// inventory names all objects of a namespace, and all that belong to none.
func (c *controlPlane) inventory(ctx context.Context, r resources, namespace string) ([]string, error) {
	own, err := c.kubectl(ctx, "-n", namespace, "get", r.namespaced, "-o", "name")
	if err != nil {
		return nil, err
	}
	cluster, err := c.kubectl(ctx, "get", r.cluster, "-o", "name")
	if err != nil {
		return nil, err
	}
	all := strings.Fields(own.stdout + "\n" + cluster.stdout)
	slices.Sort(all)
	return all, nil
}

// difference tells what b has and a has not, and the other way round; nil if nothing.
func difference(a, b []string) error {
	var more, fewer []string
	for _, name := range b {
		if !slices.Contains(a, name) {
			more = append(more, name)
		}
	}
	for _, name := range a {
		if !slices.Contains(b, name) {
			fewer = append(fewer, name)
		}
	}
	if len(more)+len(fewer) == 0 {
		return nil
	}
	return fmt.Errorf("left behind: %v; gone missing: %v", more, fewer)
}
