package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

type healthcheckCmd struct {
	settingsFlags

	Ready   bool          `help:"Ask whether calls can be answered now (/readyz), not only whether the process lives (/livez)."`
	Timeout time.Duration `default:"3s" placeholder:"TIME" help:"How long to wait for the answer. Default: 3s."`
}

// Help is shown by kong under the usage.
func (healthcheckCmd) Help() string {
	return `It is for containers without a shell: it reads admin.address from the settings of the service and asks that port on this machine. Exit codes: 0 live (or ready); 1 not; 2 wrong usage.

Examples:

    coordsvc healthcheck
    coordsvc healthcheck --ready --timeout 1s
    HEALTHCHECK CMD ["/coordsvc", "healthcheck"]`
}

// Run asks the admin port.
func (c *healthcheckCmd) Run(inv *invocation) error {
	loaded, err := c.load(inv)
	if err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return failf(exitUsage, "--timeout is %s; it must be greater than zero", c.Timeout)
	}
	address, err := localAddress(loaded.Admin.Address)
	if err != nil {
		return err
	}
	page := "/livez"
	if c.Ready {
		page = "/readyz"
	}
	return c.ask(inv, "http://"+address+page)
}

func (c *healthcheckCmd) ask(inv *invocation, url string) error {
	ctx, cancel := context.WithTimeout(inv.ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// A proxy of the environment has no business with this machine's own port.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return failf(exitFailed, "the service does not answer: %s; see whether it runs, and whether admin.address (--admin-address) is the one it was started with", err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 512)) // for the message only
	if response.StatusCode != http.StatusOK {
		return failf(exitFailed, "%s answered %s: %s", url, displayText(response.Status), displayText(strings.TrimSpace(string(body))))
	}
	_, err = fmt.Fprintln(inv.out, displayText(strings.TrimSpace(string(body))))
	return err
}

// localAddress is where this machine reaches a port that it listens on.
func localAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", failf(exitUsage, "admin.address is %s: a port that is chosen at start cannot be known here; give --admin-address", listen)
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}
