// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

const (
	limitedRights = "limited"
	adminRights   = "admin"
	// agentAccount is the ServiceAccount of karmada-agent, and agentSecret has its credentials.
	agentAccount = "karmada-system/karmada-agent-sa"
	agentSecret  = "karmada-kubeconfig"
)

// workloadKinds are what a workload may consist of besides ConfigMaps and pods, as RESOURCE.GROUP. The hub can read them in all namespaces: therefore
// there are no Secrets.
var workloadKinds = []string{
	"persistentvolumeclaims", "serviceaccounts", "services", "daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps",
	"horizontalpodautoscalers.autoscaling", "cronjobs.batch", "jobs.batch", "virtualmachineinstances.kubevirt.io", "virtualmachines.kubevirt.io",
	"networkpolicies.networking.k8s.io", "poddisruptionbudgets.policy",
}

// memberRights are the rights of the hub in a member.
type memberRights struct {
	rights, podSecurity, system string
	workloads, kinds            []string
	// account is the account of karmada-agent, or with mode Push the account whose token the hub has.
	account string
	// flags are those of the options above.
	flags *pflag.FlagSet
}

// add adds the options to a command.
func (r *memberRights) add(to *pflag.FlagSet) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.account, r.flags = agentAccount, flags
	flags.StringVar(&r.rights, "agent-rights", limitedRights, "`RIGHTS` of the hub in the cluster: limited, or admin, with which whoever controls the hub is root on the cluster's nodes")
	flags.StringSliceVar(&r.workloads, "workload-namespace", nil, "`NAMES` of namespaces of the cluster, with commas between, in which the hub may run workloads")
	flags.StringSliceVar(&r.kinds, "workload-kind", nil, "more `KINDS` of objects of workloads, such as ingresses.networking.k8s.io; the hub can read them in all namespaces")
	flags.StringVar(&r.podSecurity, "pod-security", "baseline", "Pod Security `LEVEL` of these namespaces: restricted, baseline or privileged")
	flags.StringVar(&r.system, "system-namespace", "kubernetsn-system", "`NAME` of the namespace of KuberneTSN in the cluster")
	to.AddFlagSet(flags)
}

// given returns the options that are set, for another command line. complete has checked their values.
func (r *memberRights) given() (options []string) {
	r.flags.VisitAll(func(flag *pflag.Flag) {
		value := flag.Value.String()
		if list, isList := flag.Value.(pflag.SliceValue); isList {
			value = strings.Join(list.GetSlice(), ",")
		}
		if flag.Changed {
			options = append(options, "--"+flag.Name, value)
		}
	})
	return options
}

// kindsOfGroup has the resources of a group.
type kindsOfGroup struct{ Group, Resources string }

// rightsData is the data of the template of the rights. Role is the name of the objects, and the value of their label.
type rightsData struct {
	Role, Namespace, Account, Secret, System, PodSecurity string
	Workloads                                             []string
	Kinds                                                 []kindsOfGroup
	Admin                                                 bool
}

var (
	labelForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	kindForm  = regexp.MustCompile(`^[a-z0-9]+(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`)
)

// complete checks the options, whose values must be safe in the manifest.
func (r *memberRights) complete() (*rightsData, error) {
	if err := commandline.CheckChoice("--agent-rights", r.rights, limitedRights, adminRights); err != nil {
		return nil, err
	}
	if err := commandline.CheckChoice("--pod-security", r.podSecurity, "restricted", "baseline", "privileged"); err != nil {
		return nil, err
	}
	namespace, account, _ := strings.Cut(r.account, "/")
	if !labelForm.MatchString(namespace) || !labelForm.MatchString(account) {
		return nil, commandline.Usage(fmt.Errorf("--account %q is not an account; write NAMESPACE/NAME, both of small letters, digits and hyphens", r.account))
	}
	if err := checkNamespaces("--system-namespace", r.system); err != nil {
		return nil, err
	}
	if err := checkNamespaces("--workload-namespace", r.workloads...); err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(r.workloads, r.isSystem); at >= 0 {
		return nil, commandline.Usage(fmt.Errorf("--workload-namespace %s is a namespace of the cluster's own programs; by pods there the hub would be root on the nodes. "+
			"Name others, or give --agent-rights admin", r.workloads[at]))
	}
	// Accounts of other namespaces have the same names, and ClusterRoles such as "view" have names without a dot.
	data := &rightsData{
		Role: namespace + "." + account, Namespace: namespace, Account: account, System: r.system, PodSecurity: r.podSecurity, Workloads: r.workloads, Admin: r.rights == adminRights,
	}
	if r.account == agentAccount {
		data.Role, data.Secret = federation.AgentRights, agentSecret
	}
	if len(data.Role) > maxLabel {
		return nil, commandline.Usage(fmt.Errorf("--account %q has %d characters, and its rights have it as a label of %d at most; take a shorter name", r.account, len(data.Role), maxLabel))
	}
	if err := data.addKinds(append(slices.Clone(workloadKinds), r.kinds...)); err != nil {
		return nil, err
	}
	if len(r.workloads)+len(r.kinds) == 0 {
		data.Kinds = nil // the hub keeps the kinds that it has
	}
	return data, nil
}

// maxLabel is the maximum number of characters of a label's value.
const maxLabel = 63

// checkNamespaces checks names that an option gives.
func checkNamespaces(option string, names ...string) error {
	for _, name := range names {
		if !labelForm.MatchString(name) {
			return commandline.Usage(fmt.Errorf("%s %q is not a name of a namespace; write small letters, digits and hyphens", option, name))
		}
	}
	return nil
}

// isSystem reports whether a namespace must have no workloads of the hub.
func (r *memberRights) isSystem(namespace string) bool {
	return namespace == r.system || strings.HasPrefix(namespace, "kube-") || strings.HasPrefix(namespace, "karmada-")
}

// addKinds adds kinds by their groups.
func (d *rightsData) addKinds(kinds []string) error {
	for _, kind := range slices.Compact(kinds) {
		if !kindForm.MatchString(kind) {
			return commandline.Usage(fmt.Errorf("--workload-kind %q is not a kind; write RESOURCE or RESOURCE.GROUP, such as ingresses.networking.k8s.io", kind))
		}
		resource, group, _ := strings.Cut(kind, ".")
		at := slices.IndexFunc(d.Kinds, func(have kindsOfGroup) bool { return have.Group == group })
		if at < 0 {
			d.Kinds = append(d.Kinds, kindsOfGroup{Group: group, Resources: resource})
			continue
		}
		d.Kinds[at].Resources += ", " + resource
	}
	return nil
}

// String describes the rights of the hub, for those who apply a manifest.
func (r *memberRights) String() string {
	switch {
	case r.rights == adminRights:
		return "With it the hub administers the cluster: whoever controls the hub can read all Secrets and is root on the nodes."
	case len(r.workloads) == 0:
		return "It has no namespace in which the hub may run workloads; set --workload-namespace."
	}
	return "With it the hub can run workloads in the namespaces " + strings.Join(r.workloads, ", ") + ", of the Pod Security level " + r.podSecurity +
		". Namespaces of earlier manifests stay."
}

const fedRightsLong = `Prints an account with the rights of the hub, for kubectl apply in a member. The default account is that of karmada-agent,
which has the same rights in the manifest of ` + "`ktsn fed join`" + `; apply them again for other namespaces of workloads. For mode Push
name another account, and give the hub a token of it.

All objects but the namespaces of workloads have the label federation.kubernetsn.io/rights, with the name of the rights: karmada-agent, or that of
the account as NAMESPACE.NAME. By it they are removed when the cluster leaves. Rights that are applied again add namespaces; the kinds that were given
before are replaced if an option names a kind or a namespace.

With limited rights, the default, the hub writes networks, services and links, the namespaces that it has made, and workloads in the
namespaces that are named. It reads nodes, pods, ConfigMaps and the kinds of workloads in all namespaces, and no Secrets.`

func newFedRights(env *commandline.Environment) *cobra.Command {
	rights := &memberRights{}
	command := &cobra.Command{
		Use: "rights", Short: "Print the rights of the hub in a member", Long: fedRightsLong, Args: commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			data, err := rights.complete()
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := agentManifest.ExecuteTemplate(&text, "rights", data); err != nil {
				return fmt.Errorf("write the rights: %w", err)
			}
			_, err = fmt.Fprintln(env.Stdout, text.String())
			return err
		},
	}
	rights.add(command.Flags())
	command.Flags().StringVar(&rights.account, "account", agentAccount, "`NAMESPACE/NAME` of the ServiceAccount that gets the rights")
	return command
}
