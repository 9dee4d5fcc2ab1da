//go:build linux

package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// repository is where the project lies, seen from here.
const repository = "../../.."

// controlPlane is a running Kubernetes, without containers.
type controlPlane struct {
	programs  string // folder of kube-apiserver and the rest
	dir       string // keys, data and logs
	processes []*process
	ports     []func() // release them
}

// build has tools/kubernetes/build make NAME, if it was not made yet, and returns its folder.
func build(ctx context.Context, name string) (folder string, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(repository, "tools", "kubernetes", "build"), name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("make %s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// startControlPlane runs a Kubernetes out of the folder programs, with pretend nodes played by
// kwok, in dir. The caller stops it, also if it did not start.
func startControlPlane(ctx context.Context, dir, programs, kwok string, nodes int) (*controlPlane, error) {
	c := &controlPlane{programs: programs, dir: dir}
	for _, start := range []func(context.Context) error{
		c.startServer,
		c.startControllers,
		func(ctx context.Context) error { return c.startNodes(ctx, kwok, nodes) },
	} {
		if err := start(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *controlPlane) startServer(ctx context.Context) error {
	client, err := c.port()
	if err != nil {
		return err
	}
	peer, err := c.port()
	if err != nil {
		return err
	}
	secure, err := c.port()
	if err != nil {
		return err
	}
	token, err := writeKeys(c.dir)
	if err != nil {
		return fmt.Errorf("keys of the API server: %w", err)
	}
	if err := c.writeKubeconfig(secure, token); err != nil {
		return err
	}
	clientURL, peerURL := "http://127.0.0.1:"+client, "http://127.0.0.1:"+peer
	if err := c.start("etcd", "--name=etcd", "--data-dir="+filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+clientURL, "--advertise-client-urls="+clientURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=etcd="+peerURL); err != nil {
		return err
	}
	if err := c.start("kube-apiserver", "--etcd-servers="+clientURL,
		"--bind-address=127.0.0.1", "--secure-port="+secure, "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged",
		"--tls-cert-file=apiserver.crt", "--tls-private-key-file=apiserver.key", "--token-auth-file=tokens.csv",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=accounts.key", "--service-account-signing-key-file=accounts.key",
		"--authorization-mode=Node,RBAC",
		// On by default; named, so that a change of defaults cannot take it away unseen.
		"--enable-admission-plugins=PodSecurity"); err != nil {
		return err
	}
	return c.eventually(ctx, 2*time.Minute, func() error {
		_, err := c.kubectl(ctx, "get", "--raw=/readyz")
		return err
	})
}

func (c *controlPlane) startControllers(ctx context.Context) error {
	controllers, err := c.port()
	if err != nil {
		return err
	}
	scheduler, err := c.port()
	if err != nil {
		return err
	}
	if err := c.start("kube-controller-manager", "--kubeconfig=kubeconfig", "--bind-address=127.0.0.1", "--secure-port="+controllers,
		"--leader-elect=false", "--use-service-account-credentials", "--service-account-private-key-file=accounts.key",
		"--root-ca-file=apiserver.crt", "--horizontal-pod-autoscaler-sync-period=1s",
		"--node-monitor-grace-period=1h", // the nodes send no heartbeats
	); err != nil {
		return err
	}
	if err := c.start("kube-scheduler", "--kubeconfig=kubeconfig", "--bind-address=127.0.0.1", "--secure-port="+scheduler,
		"--leader-elect=false"); err != nil {
		return err
	}
	// Until it exists every Pod is refused.
	return c.eventually(ctx, time.Minute, func() error {
		_, err := c.kubectl(ctx, "-n", "default", "get", "serviceaccount", "default")
		return err
	})
}

func (c *controlPlane) startNodes(ctx context.Context, kwok string, nodes int) error {
	port, err := c.port()
	if err != nil {
		return err
	}
	stages, err := filepath.Abs("testdata/stages.yaml")
	if err != nil {
		return err
	}
	if err := c.start(filepath.Join(kwok, "kwok"), "--kubeconfig=kubeconfig", "--config="+stages, "--manage-all-nodes",
		"--server-address=127.0.0.1:"+port); err != nil {
		return err
	}
	var list strings.Builder
	for i := range nodes {
		fmt.Fprintf(&list, "---\napiVersion: v1\nkind: Node\nmetadata: {name: node-%[1]d, labels: {kubernetes.io/hostname: node-%[1]d, "+
			"kubernetes.io/os: linux, kubernetes.io/arch: amd64, topology.kubernetes.io/zone: zone-%[1]d}}\n", i+1)
	}
	if _, err := c.kubectlInput(ctx, list.String(), "apply", "-f", "-"); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, "wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
	return err
}

// start runs a program: a name in the folder of programs, or a path.
func (c *controlPlane) start(program string, args ...string) error {
	if !filepath.IsAbs(program) {
		program = filepath.Join(c.programs, program)
	}
	p, err := startProcess(c.dir, program, args...)
	if err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	return nil
}

// stop ends the programs, the last started first.
func (c *controlPlane) stop() {
	for i := len(c.processes) - 1; i >= 0; i-- {
		c.processes[i].stop(10 * time.Second)
	}
	for _, release := range c.ports {
		release()
	}
}

// broken tells of a program that ended before its time, or is nil.
func (c *controlPlane) broken() error {
	for _, p := range c.processes {
		if err := p.ended(); err != nil {
			return err
		}
	}
	return nil
}

func (c *controlPlane) port() (string, error) {
	port, release, err := reservePort()
	if err != nil {
		return "", fmt.Errorf("reserve a port: %w", err)
	}
	c.ports = append(c.ports, release)
	return strconv.Itoa(port), nil
}

func (c *controlPlane) writeKubeconfig(port, token string) error {
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:%s", certificate-authority: %s}}]
users: [{name: admin, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`, port, filepath.Join(c.dir, "apiserver.crt"), token)
	return os.WriteFile(c.kubeconfig(), []byte(config), 0o600)
}

func (c *controlPlane) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// eventually tries until it succeeds; its last error is returned when the time is over.
func (c *controlPlane) eventually(ctx context.Context, within time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not so within %v: %w", within, err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := c.broken(); err != nil {
			return err
		}
	}
}

// output is what a command printed.
type output struct{ stdout, stderr string }

// run runs a command against the control plane. A home of its own keeps it from what the user
// has configured.
func (c *controlPlane) run(ctx context.Context, input, program string, args ...string) (output, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(c.dir, "home"), "KUBECONFIG=" + c.kubeconfig()}
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := output{stdout.String(), stderr.String()}
	if err != nil {
		err = fmt.Errorf("%s %s: %w:\n%s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(out.stderr))
		err = errors.Join(err, c.broken())
	}
	return out, err
}

func (c *controlPlane) kubectl(ctx context.Context, args ...string) (output, error) {
	return c.kubectlInput(ctx, "", args...)
}

func (c *controlPlane) kubectlInput(ctx context.Context, input string, args ...string) (output, error) {
	return c.run(ctx, input, filepath.Join(c.programs, "kubectl"), args...)
}
