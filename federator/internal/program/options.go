// SPDX-License-Identifier: Apache-2.0

package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Options are the options of the command line.
type Options struct {
	// Kubeconfig is the file to reach the hub with, "" in a pod of the hub.
	Kubeconfig string
	// Listen is the address of the API. Certificate and Key are the files of its certificate.
	Listen, Certificate, Key string
	// HubAddress is the address at which agents of clusters reach the hub, "" for the federator's own.
	HubAddress string
	// Namespace is the federator's namespace at the hub, and the namespace of KuberneTSN in the clusters.
	Namespace string
	// Audiences are the accepted audiences of bearer tokens.
	Audiences []string
	// Health and Metrics are addresses to listen on; Metrics may be "0".
	Health, Metrics string
	// OnListen is for tests: it is called with the address of the API.
	OnListen func(net.Addr)
}

const help = `Usage: ktsn-federator [OPTION]...

Serves the REST API by which clusters join a federation, and by which workloads are put on them, moved and removed;
stretches TSNNetworks with spec.span over the clusters; gives TSNServices to them, and links pods of different clusters.
The hub is Karmada's API server. What a request asks for is done there as the user whose bearer token it has, so that
the hub's RBAC decides. There is no other state than the objects of the hub. Several may run: all answer requests, one
does the rest. The chart federator starts it. GET /openapi.json describes the API, and ` + "`ktsn fed`" + ` uses it.

Options:
`

// Parse reads the options.
func Parse(arguments []string, stdout io.Writer) (*Options, error) {
	o := &Options{}
	flags := flag.NewFlagSet("ktsn-federator", flag.ContinueOnError)
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "`FILE` that says how to reach the hub; without it, as a pod of the hub")
	flags.StringVar(&o.Listen, "listen", ":8443", "`ADDRESS` of the API")
	flags.StringVar(&o.Certificate, "certificate", "", "`FILE` with the API's certificate in PEM, read again when it changes")
	flags.StringVar(&o.Key, "key", "", "`FILE` with the certificate's key in PEM")
	flags.StringVar(&o.HubAddress, "hub-address", "", "`URL` at which agents of clusters reach the hub; without it, that at which the federator does")
	flags.StringVar(&o.Namespace, "namespace", "kubernetsn-system", "`NAME` of the federator's namespace at the hub, which is KuberneTSN's in the clusters")
	audiences := flags.String("audience", federation.Audience, "`NAMES`, with commas between, of audiences; the token of a request is for one of them")
	flags.StringVar(&o.Health, "health-address", ":8081", "`ADDRESS` of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-address", "127.0.0.1:8080", "`ADDRESS` of /metrics, which asks nobody who they are; 0 for none")
	if err := commandline.Parse(flags, help, arguments, stdout); err != nil {
		return nil, err
	}
	o.Audiences = strings.Split(*audiences, ",")
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w; %w", err, commandline.ErrUsage)
	}
	return o, nil
}

func (o *Options) check() error {
	switch {
	case o.Namespace == "":
		return errors.New("--namespace is empty")
	case slices.Contains(o.Audiences, ""):
		return errors.New("--audience has an empty name; without an audience, tokens for others would be accepted")
	case (o.Certificate == "") != (o.Key == ""):
		return errors.New("--certificate and --key go together")
	case o.Certificate == "" && !loopback(o.Listen):
		return fmt.Errorf("--listen %s can be reached from elsewhere, and bearer tokens must not go there unencrypted; give --certificate and --key", o.Listen)
	}
	return nil
}

// loopback reports whether only this machine reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
