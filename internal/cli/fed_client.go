// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

const (
	// fedPatience is the timeout of a request, which may include draining workloads.
	fedPatience = 5 * time.Minute
	// fedDial is the timeout of a connection.
	fedDial = 10 * time.Second
	// fedTries limits the attempts at a busy federator, and maxFedWait the pauses that it requests.
	fedTries   = 5
	maxFedWait = 10 * time.Second
	// maxFedAnswer limits the size of an answer.
	maxFedAnswer = 64 << 20
)

// fedClient is a client of a federator.
type fedClient struct {
	http   *http.Client
	server string
	token  string
}

func newFedClient(server, caFile, token string) (*fedClient, error) {
	address, err := url.Parse(server)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		return nil, fmt.Errorf("%q is not an address of a federator; write one such as https://federator.example.org:8443", server)
	}
	if address.Scheme == "http" && !isLoopback(address.Hostname()) {
		return nil, fmt.Errorf("%s would get the token unencrypted; write https://", server)
	}
	authorities, err := readAuthorities(caFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: fedDial}).DialContext,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authorities},
		TLSHandshakeTimeout: fedDial, ForceAttemptHTTP2: true, Proxy: http.ProxyFromEnvironment,
	}
	return &fedClient{http: &http.Client{Transport: transport}, server: strings.TrimSuffix(server, "/"), token: token}, nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// readAuthorities returns the certificates of a file, or nil for the authorities of this machine.
func readAuthorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the federator's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// do sends a request and reads the answer into a value; both may be nil.
func (c *fedClient) do(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, fedPatience)
	defer cancel()
	answer, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxFedAnswer)).Decode(into); err != nil {
		return fmt.Errorf("read the federator's answer: %w", err)
	}
	return nil
}

// send returns a successful answer, or the error that the federator reports. It retries a busy federator a few times.
func (c *fedClient) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
	}
	for try := 1; ; try++ {
		answer, err := c.sendOnce(ctx, method, path, raw)
		if err != nil || answer.StatusCode < http.StatusBadRequest {
			return answer, err
		}
		wait, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		problem := readProblem(answer)
		_ = answer.Body.Close() // it has been read
		if answer.StatusCode != http.StatusTooManyRequests || err != nil || try == fedTries {
			return nil, problem
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(time.Duration(wait)*time.Second, maxFedWait)):
		}
	}
}

// sendOnce returns the answer, whatever its status is.
func (c *fedClient) sendOnce(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		var failure *url.Error
		if errors.As(err, &failure) {
			err = failure.Err // without the address, which follows
		}
		return nil, fmt.Errorf("ask the federator at %s: %w", c.server, err)
	}
	return answer, nil
}

// readProblem returns the error in an answer.
func readProblem(answer *http.Response) error {
	var problem federation.Problem
	text, err := io.ReadAll(io.LimitReader(answer.Body, federation.MaxBody))
	if err != nil || json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("the federator answers %s", answer.Status)
	}
	reported := []string{problem.Detail}
	for _, detail := range problem.Errors {
		reported = append(reported, strings.TrimSpace(detail.Location+" "+detail.Message))
	}
	return errors.New(withoutControls(strings.Join(reported, "; ")))
}

// watch calls show for each change until the stream ends or ctx is done.
func (c *fedClient) watch(ctx context.Context, path string, show func(*federation.Change) error) error {
	answer, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxFedAnswer)
	event := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		data, matches := strings.CutPrefix(lines.Text(), "data: ")
		if !matches {
			continue
		}
		if event == "problem" {
			var problem federation.Problem
			_ = json.Unmarshal([]byte(data), &problem) // an unreadable problem has no detail
			return fmt.Errorf("the federator ends the watch: %s", withoutControls(problem.Detail))
		}
		var change federation.Change
		if err := json.Unmarshal([]byte(data), &change); err != nil {
			return fmt.Errorf("read the federator's change: %w", err)
		}
		if err := show(&change); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}
