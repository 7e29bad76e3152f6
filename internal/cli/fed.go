// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const fedLong = `Sends requests to ktsn-federator, which federates clusters. Requests have the rights of the token at the hub.

The federator is given by --server, --ca and --token-file, or by a YAML file, named by --config or KTSN_FED_CONFIG, with the keys
server, ca (a file), and token or tokenFile.`

func newFed(env *commandline.Environment) *cobra.Command {
	at := &fedServer{}
	env = &commandline.Environment{Executable: env.Executable, Stdout: printable{env.Stdout}, Stderr: env.Stderr}
	group := commandline.Group("fed", "Federate clusters: join, deploy, move, and show where workloads run",
		newFedJoin(env, at), newFedEnroll(env, at), newFedUnjoin(env, at), newFedRights(env), newFedList(at, "clusters", "List the members", "/api/v1/clusters", printClusters),
		newFedDeploy(env, at), newFedMove(env, at), newFedDelete(env, at),
		newFedWhere(at), newFedList(at, "networks", "Show networks, and the subnets that clusters have of them", "/api/v1/networks", printNetworks),
		newFedLinks(at), newFedEvents(at), newFedWatch(env, at))
	group.Long = fedLong
	at.add(group)
	return group
}

// fedServer has the options that select the federator and the credentials.
type fedServer struct{ config, server, ca, token, tokenFile string }

// add adds the options to all commands of a group.
func (s *fedServer) add(group *cobra.Command) {
	flags := group.PersistentFlags()
	flags.StringVar(&s.config, "config", os.Getenv("KTSN_FED_CONFIG"), "configuration `FILE` of this command (KTSN_FED_CONFIG)")
	flags.StringVar(&s.server, "server", "", "`URL` of the federator, such as https://federator.example.org:8443")
	flags.StringVar(&s.ca, "ca", "", "`FILE` with the certificate of the federator's authority in PEM; without it, the authorities of this machine are used")
	flags.StringVar(&s.token, "token", "", "bearer `TOKEN` of the hub for the audience ktsn-federator; others on this machine can read it")
	flags.StringVar(&s.tokenFile, "token-file", "", "`FILE` with the token")
}

// fedConfig is the configuration file.
type fedConfig struct {
	Server    string `yaml:"server"`
	CA        string `yaml:"ca"`
	Token     string `yaml:"token"`
	TokenFile string `yaml:"tokenFile"`
}

// open reads the files and returns a client. Options override the configuration.
func (s *fedServer) open() (*fedClient, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	if s.server == "" {
		return nil, commandline.Usage(fmt.Errorf("no federator is given; set --server, or --config"))
	}
	if s.token == "" && s.tokenFile != "" {
		text, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		s.token = strings.TrimSpace(string(text))
	}
	if s.token == "" {
		return nil, commandline.Usage(fmt.Errorf("no token is given; set --token-file, or one in the file of --config"))
	}
	return newFedClient(s.server, s.ca, s.token)
}

func (s *fedServer) read() error {
	if s.config == "" {
		return nil
	}
	text, err := os.ReadFile(s.config)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var file fedConfig
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the configuration: %s, whose keys are server, ca, token and tokenFile: %w", s.config, err)
	}
	for _, row := range []struct {
		option *string
		value  string
	}{{&s.server, file.Server}, {&s.ca, file.CA}} {
		if *row.option == "" {
			*row.option = row.value
		}
	}
	if s.token == "" && s.tokenFile == "" {
		s.token, s.tokenFile = file.Token, file.TokenFile
	}
	return nil
}

// splitWorkload reads NAMESPACE/NAME.
func splitWorkload(text string) (namespace, name string, err error) {
	namespace, name, exists := strings.Cut(text, "/")
	if !exists || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", commandline.Usage(fmt.Errorf("%q is not a workload; write NAMESPACE/NAME, such as default/web", text))
	}
	return namespace, name, nil
}
