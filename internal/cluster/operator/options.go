// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Options are those of the operator's command line.
type Options struct {
	// Namespace is the operator's own, with the Secret of its certificate and the lease of its leader.
	Namespace string
	// Identity is under which name the operator leads, "": one of each start. No two may have the same.
	Identity string
	// Service is that of the webhook, Secret that of its certificate, Webhook the MutatingWebhookConfiguration.
	Service, Secret, Webhook string
	// Port is the webhook's.
	Port int
	// Health and Metrics are addresses to listen on; Metrics may be "0".
	Health, Metrics string
	// Linger is for how long a node without pods keeps ktsnd and agent.
	Linger time.Duration
	// Kata has the handlers of RuntimeClasses that are Kata's.
	Kata webhook.Kata
	// WaitImage is that of the init container which waits for links, WaitPullPolicy when it is pulled.
	WaitImage, WaitPullPolicy string
	// SwitchedNodes selects by their labels the nodes whose uplink is Open vSwitch's; "": there are none.
	SwitchedNodes string
	// PinManually leaves it to the administrator to pin the keys of other clusters.
	PinManually bool
	// Minimum is the least encryption of networks and links.
	Minimum tsnnetwork.EncryptionMinimum
	// Reserved are addresses of the cluster's own that the operator's container knows.
	Reserved []links.Reserved
	// CertificateName is for tests, whose webhook has no Service: the name in the certificate.
	CertificateName string
	// AgentPatience is for tests, which do not wait long: for how long a report counts without an agent that is ready, 0 for two minutes.
	AgentPatience time.Duration
}

const help = `Usage: ktsn-operator --namespace NAME [OPTION]...
       ktsn-operator remove [OPTION]...

Does for a Kubernetes cluster what its TSNNetworks ask for: puts annotated pods on networks when they are made
(a webhook), divides addresses among nodes, makes attachments for Multus, labels the nodes that need ktsnd and its
agent, has all nodes begin with a schedule at one time, and says in each network's status what has become of it.
Pairs the pods of TSNServices, and makes a TSNLink of each pair.
Several may run: all answer the API server, one does the rest. The chart kubernetsn starts it. The other one removes all
TSNNetworks; its --help lists its options.

Options:
`

// Values of --pinning.
const pinningAutomatic, pinningManual = "Automatic", "Manual"

// Parse reads the options.
func Parse(arguments []string, stdout io.Writer) (*Options, error) {
	o := &Options{}
	flags := flag.NewFlagSet("ktsn-operator", flag.ContinueOnError)
	flags.StringVar(&o.Namespace, "namespace", "", "`NAME` of the operator's own namespace (required)")
	flags.StringVar(&o.Identity, "identity", "", "`NAME` under which it leads, that of its pod: once killed and started again, it leads again at once; none: a new one each time")
	flags.StringVar(&o.Service, "service", "ktsn-operator", "`NAME` of the webhook's Service")
	flags.StringVar(&o.Secret, "secret", "ktsn-operator-certificate", "`NAME` of the Secret for the webhook's certificate, made where it is missing")
	flags.StringVar(&o.Webhook, "webhook", "kubernetsn", "`NAME` of the MutatingWebhookConfiguration")
	flags.IntVar(&o.Port, "port", 9443, "`PORT` of the webhook")
	flags.StringVar(&o.Health, "health-address", ":8081", "`ADDRESS` of /healthz and /readyz")
	flags.StringVar(&o.Metrics, "metrics-address", ":8080", "`ADDRESS` of /metrics, 0 for none")
	flags.Var(&o.Kata, "kata", "`HANDLER=veth` or HANDLER=FOLDER, with commas between: handlers of RuntimeClasses that are Kata's, whose pods have their network devices "+
		"in the network namespace, or by files in the folder (dan_conf)")
	flags.StringVar(&o.WaitImage, "wait-image", "", "`IMAGE` with ktsn-wait, which waits in pods for their links (required)")
	flags.StringVar(&o.WaitPullPolicy, "wait-pull-policy", "", "`POLICY` by which it is pulled: Always, IfNotPresent or Never")
	flags.StringVar(&o.SwitchedNodes, "switched-nodes", "", "`SELECTOR` of the labels of nodes whose uplink is Open vSwitch's, where no link can end")
	flags.Func("pinning", "`HOW` keys of other clusters are pinned: Automatic (the first one that is seen; default) or Manual", func(text string) error {
		o.PinManually = text == pinningManual
		if text != pinningManual && text != pinningAutomatic {
			return fmt.Errorf("give %s or %s", pinningAutomatic, pinningManual)
		}
		return nil
	})
	o.Minimum.AddFlags(flags)
	flags.DurationVar(&o.Linger, "linger", time.Minute, "for how long a node keeps ktsnd and agent after its last pod on a network")
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
