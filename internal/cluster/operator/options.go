// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Options are the options of the operator's command line.
type Options struct {
	// Namespace is the operator's namespace, which holds the Secret of its certificate and the leader's lease.
	Namespace string
	// Identity is the operator's unique name in leader election; "" generates a name at each start.
	Identity string
	// Service is the webhook's Service, Secret the Secret with its certificate, Webhook the MutatingWebhookConfiguration.
	Service, Secret, Webhook string
	// Port is the webhook's port.
	Port int
	// Health and Metrics are listen addresses; Metrics "0" disables metrics.
	Health, Metrics string
	// Linger is how long a node without pods keeps ktsnd and its agent.
	Linger time.Duration
	// Kata lists the RuntimeClass handlers that run Kata Containers.
	Kata webhook.Kata
	// WaitImage is the image of the init container that waits for links, WaitPullPolicy its pull policy.
	WaitImage, WaitPullPolicy string
	// SwitchedNodes is a label selector of the nodes whose uplink is an Open vSwitch bridge; "" selects none.
	SwitchedNodes string
	// PinManually disables automatic pinning of other clusters' keys; the administrator pins them.
	PinManually bool
	// Minimum is the minimum encryption of networks and links.
	Minimum tsnnetwork.EncryptionMinimum
	// EncryptedPort is the UDP port of encrypted tunnels, which no network can have as its own.
	EncryptedPort int
	// Reserved are the cluster's own addresses that the operator's container knows.
	Reserved []links.Reserved
	// CertificateName overrides the name in the certificate in tests, whose webhook has no Service.
	CertificateName string
	// AgentTimeout overrides agentTimeout in tests; 0 uses the default.
	AgentTimeout time.Duration
}

const help = `Usage: ktsn-operator --namespace NAME [OPTION]...
       ktsn-operator remove [OPTION]...

Reconciles the TSNNetworks of a Kubernetes cluster: attaches annotated pods to networks when they are created
(a webhook), allocates addresses to nodes, creates attachments for Multus, labels the nodes that need ktsnd and its
agent, chooses one base time of a schedule for all nodes, and reports in each network's status.
Pairs the pods of TSNServices, and creates a TSNLink for each pair.
Several replicas may run: all serve the webhook, the leader does the rest. The chart kubernetsn starts it. The second
form removes all TSNNetworks; its --help lists its options.

Options:
`

// Values of option --pinning.
const pinningAutomatic, pinningManual = "Automatic", "Manual"

// Parse parses the command line.
func Parse(arguments []string, stdout io.Writer) (*Options, error) {
	o := &Options{}
	flags := flag.NewFlagSet("ktsn-operator", flag.ContinueOnError)
	flags.StringVar(&o.Namespace, "namespace", "", "`NAME` of the operator's namespace (required)")
	flags.StringVar(&o.Identity, "identity", "", "`NAME` in leader election, usually the pod's: a restarted operator with the same name leads again at once; default: a new name at each start")
	flags.StringVar(&o.Service, "service", "ktsn-operator", "`NAME` of the webhook's Service")
	flags.StringVar(&o.Secret, "secret", "ktsn-operator-certificate", "`NAME` of the Secret for the webhook's certificate, created if it is missing")
	flags.StringVar(&o.Webhook, "webhook", "kubernetsn", "`NAME` of the MutatingWebhookConfiguration")
	flags.IntVar(&o.Port, "port", 9443, "`PORT` of the webhook")
	flags.StringVar(&o.Health, "health-address", ":8081", "`ADDRESS` of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-address", ":8080", "`ADDRESS` of /metrics, 0 to disable it")
	flags.Func("kata", "`HANDLER=veth` or HANDLER=FOLDER, comma-separated: RuntimeClass handlers of Kata Containers, whose pods have their network devices "+
		"in the network namespace, or from files in the folder (dan_conf)", o.Kata.Set)
	flags.StringVar(&o.WaitImage, "wait-image", "", "`IMAGE` with ktsn-wait, the init container that waits for links (required)")
	flags.StringVar(&o.WaitPullPolicy, "wait-pull-policy", "", "pull `POLICY` of --wait-image: Always, IfNotPresent or Never")
	flags.StringVar(&o.SwitchedNodes, "switched-nodes", "", "label `SELECTOR` of the nodes whose uplink is an Open vSwitch bridge, where no link can end")
	flags.Func("pinning", "`MODE` of pinning keys of other clusters: Automatic (trust on first use; default) or Manual", func(text string) error {
		o.PinManually = text == pinningManual
		if text != pinningManual && text != pinningAutomatic {
			return fmt.Errorf("give %s or %s", pinningAutomatic, pinningManual)
		}
		return nil
	})
	o.Minimum.AddFlags(flags)
	flags.IntVar(&o.EncryptedPort, "encrypted-port", v1alpha1.DefaultEncryptedPort, "UDP `PORT` of the tunnels of encrypted networks; the agents have the same")
	flags.DurationVar(&o.Linger, "linger", time.Minute, "how long a node keeps ktsnd and its agent after its last pod on a network")
	if err := commandline.Parse(flags, help, arguments, stdout); err != nil {
		return nil, err
	}
	switch {
	case o.Namespace == "":
		return nil, fmt.Errorf("--namespace is missing; %w", commandline.ErrUsage)
	case o.WaitImage == "":
		return nil, fmt.Errorf("--wait-image is missing; %w", commandline.ErrUsage)
	case o.Linger < 0:
		return nil, fmt.Errorf("--linger is %v; give 0 or more; %w", o.Linger, commandline.ErrUsage)
	}
	return o, nil
}
