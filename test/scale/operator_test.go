// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/internal/cluster/operator"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// partConfig is the configuration of a part's process.
type partConfig struct {
	// Dir is the folder of this run.
	Dir string
	// Host is the API server's address, CA what it is trusted by.
	Host string
	CA   []byte
	// Token is the operator's.
	Token string
	// Port is the webhook's.
	Port int
}

func readPartConfig(path string) (*partConfig, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what %s says: %w", configVariable, err)
	}
	config := &partConfig{}
	return config, json.Unmarshal(text, config)
}

// server is a configuration as a pod has it, but for the token.
func (c *partConfig) server() *rest.Config {
	return &rest.Config{Host: c.Host, TLSClientConfig: rest.TLSClientConfig{CAData: c.CA}}
}

// Profiles is what the operator's process can be asked for.
type Profiles struct{}

// Profile writes one into a file.
func (Profiles) Profile(wanted ProfileRequest, _ *None) error { return writeProfile(wanted) }

func runOperator(ctx context.Context, config *partConfig) error {
	log, err := os.OpenFile(filepath.Join(config.Dir, "operator.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	calls := rpc.NewServer()
	if err := calls.Register(Profiles{}); err != nil {
		return err
	}
	path := filepath.Join(config.Dir, "operator.sock")
	_ = os.Remove(path) // of a process before
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer listener.Close()
	go calls.Accept(listener)
	server := config.server()
	server.BearerToken = config.Token
	options := &operator.Options{
		Namespace: system, Service: "ktsn-operator", Secret: "ktsn-operator-certificate", Webhook: "kubernetsn", Port: config.Port,
		Health: "127.0.0.1:0", Metrics: "0", Linger: linger, CertificateName: "localhost",
	}
	err = operator.Run(ctx, options, server, nowTAI, slog.New(slog.NewTextHandler(log, nil)))
	if err == nil || ctx.Err() != nil {
		return err
	}
	// As kubelet does. It ends where it gets no processor for ten seconds: it is no leader any more.
	fmt.Fprintln(log, operatorEnded, err)
	_ = retry.Pause(ctx, firstRestart)
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// operatorEnded is the beginning of the message in the log about a restarted operator.
const operatorEnded = "the operator has ended:"
