// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	wire "github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// user is a user of the hub, who may deploy in one namespace, or nowhere.
type user struct {
	f               *federator
	namespace, name string
}

// newUser creates a user, who is deleted with the namespace.
func newUser(ctx context.Context, t *testing.T, f *federator, namespace, name string) *user {
	t.Helper()
	hub.apply(ctx, t, fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: %s, name: %s}\n", namespace, name))
	u := &user{f, namespace, name}
	f.write(name, hub.tokenOf(ctx, t, namespace, name, wire.Audience))
	return u
}

// mayDeploy grants the rights that the documentation names.
func (u *user) mayDeploy(ctx context.Context, t *testing.T) *user {
	t.Helper()
	everywhere := u.namespace + "-" + u.name
	hub.apply(ctx, t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: %[1]s, name: %[2]s}
rules:
  - {apiGroups: [policy.karmada.io], resources: [propagationpolicies], verbs: ["*"]}
  - {apiGroups: [apps], resources: [deployments], verbs: ["*"]}
  - {apiGroups: [kubernetsn.io], resources: [tsnworkloads], verbs: ["*"]}
  - {apiGroups: [work.karmada.io], resources: [resourcebindings], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: %[1]s, name: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[2]s}
subjects: [{kind: ServiceAccount, namespace: %[1]s, name: %[2]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[3]s}
rules: [{apiGroups: [cluster.karmada.io], resources: [clusters], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[3]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[3]s}
subjects: [{kind: ServiceAccount, namespace: %[1]s, name: %[2]s}]
`, u.namespace, u.name, everywhere))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		for _, err := range []error{
			hub.client.RbacV1().ClusterRoleBindings().Delete(ctx, everywhere, metav1.DeleteOptions{}),
			hub.client.RbacV1().ClusterRoles().Delete(ctx, everywhere, metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return u
}

// try runs a command of `ktsn fed` as the user.
func (u *user) try(ctx context.Context, arguments ...string) (string, error) {
	return u.f.try(ctx, append(arguments, "--token-file", filepath.Join(u.f.folder, u.name))...)
}

func (u *user) run(ctx context.Context, t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := u.try(ctx, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// refused runs a command that must fail with a message that contains words.
func (u *user) refused(ctx context.Context, t *testing.T, words string, arguments ...string) {
	t.Helper()
	if output, err := u.try(ctx, arguments...); err == nil || !strings.Contains(output, words) {
		t.Errorf("`ktsn fed %s` as %s says %q, want %q in it", strings.Join(arguments, " "), u.name, output, words)
	}
}

// Resources of Karmada at a hub.
var (
	policies = schema.GroupVersionResource{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "propagationpolicies"}
	clusters = schema.GroupVersionResource{Group: "cluster.karmada.io", Version: "v1alpha1", Resource: "clusters"}
	works    = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha1", Resource: "works"}
)

// written returns the policies and members of a hub, which a refused request must not change. It skips the heartbeat's
// policy, which the federator creates at its start.
func written(ctx context.Context, t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, resource := range []schema.GroupVersionResource{policies, clusters} {
		list, err := hub.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].GetName() == v1alpha1.HubHeartbeat {
				continue
			}
			fmt.Fprintln(&all, list.Items[i].GetNamespace(), list.Items[i].GetName(), list.Items[i].GetUID(), list.Items[i].GetGeneration(), list.Items[i].GetAnnotations())
		}
	}
	return all.String()
}

func TestUsersWithoutRights(t *testing.T) {
	ctx, f := needFederator(t)
	namespace := newNamespace(ctx, t)
	f.deploy(ctx, namespace, members[0])
	nobody, gone, wrong := newUser(ctx, t, f, namespace, "nobody"), newUser(ctx, t, f, namespace, "gone"), &user{f, namespace, "wrong"}
	f.write("wrong", "no.such.token")
	if err := hub.client.CoreV1().ServiceAccounts(namespace).Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.write("other.yaml", deployment(namespace, "other", 1))
	before := written(ctx, t)
	for _, arguments := range [][]string{
		{"clusters"}, {"where", namespace + "/web"}, {"deploy", namespace + "/other", "-f", filepath.Join(f.folder, "other.yaml"), "--clusters", members[0].as},
		{"move", namespace + "/web", "--to", members[1].as}, {"delete", namespace + "/web"}, {"join", "stranger", "--id", "0"}, {"unjoin", members[0].as, "--force"},
	} {
		// The message is the hub's.
		nobody.refused(ctx, t, `User "system:serviceaccount:`+namespace+`:nobody" cannot `, arguments...)
		gone.refused(ctx, t, "the hub does not know the bearer token", arguments...)
		wrong.refused(ctx, t, "the hub does not know the bearer token", arguments...)
	}
	if after := written(ctx, t); after != before {
		t.Errorf("refused requests have changed\n%sto\n%s", before, after)
	}
	await(ctx, t, members[0].runs(namespace, "web", 1))
	for _, line := range []string{
		"user=system:serviceaccount:" + namespace + ":nobody method=DELETE path=/api/v1/workloads/" + namespace + "/web status=403",
		"user=system:serviceaccount:" + namespace + ":nobody method=POST path=/api/v1/workloads status=403",
		`user="" method=DELETE path=/api/v1/clusters/` + members[0].as + " status=401",
	} {
		if !strings.Contains(f.log(), line) {
			t.Errorf("the audit has no line with %s", line)
		}
	}
}

func TestUsersWithOneNamespace(t *testing.T) {
	ctx, f := needFederator(t)
	var all []*user
	for _, name := range []string{"anna", "bert"} {
		u := newUser(ctx, t, f, newNamespace(ctx, t), name).mayDeploy(ctx, t)
		f.write(name+".yaml", deployment(u.namespace, "web", 1))
		all = append(all, u)
	}
	for _, u := range all {
		u.run(ctx, t, "deploy", u.namespace+"/web", "-f", filepath.Join(f.folder, u.name+".yaml"), "--clusters", members[0].as)
	}
	for i, u := range all {
		other := all[1-i]
		await(ctx, t, members[0].runs(u.namespace, "web", 1))
		if output := u.run(ctx, t, "where", u.namespace+"/web"); !strings.Contains(output, u.namespace+"/web") || strings.Contains(output, other.namespace) {
			t.Errorf("%s is told of %s", u.name, output)
		}
		u.refused(ctx, t, "cannot list resource", "where")
		for _, arguments := range [][]string{
			{"where", other.namespace + "/web"}, {"delete", other.namespace + "/web"}, {"move", other.namespace + "/web", "--to", members[1].as},
			{"deploy", other.namespace + "/mine", "-f", filepath.Join(f.folder, other.name+".yaml"), "--clusters", members[0].as},
		} {
			u.refused(ctx, t, `in the namespace "`+other.namespace+`"`, arguments...)
		}
		u.refused(ctx, t, "at the cluster scope", "unjoin", members[0].as, "--force")
	}
	for _, u := range all {
		await(ctx, t, members[0].runs(u.namespace, "web", 1))
		u.run(ctx, t, "move", u.namespace+"/web", "--to", members[1].as)
		u.run(ctx, t, "delete", u.namespace+"/web")
		await(ctx, t, members[1].gone(u.namespace))
	}
}

// refusedWithin bounds a refusal, which asks little of the hub.
const refusedWithin = 5 * time.Second

func TestInvalidManifests(t *testing.T) {
	ctx, f := needFederator(t)
	namespace := newNamespace(ctx, t)
	before := written(ctx, t)
	good := deployment(namespace, "web", 1)
	for name, test := range map[string]struct{ manifest, says string }{
		"empty":                  {"", "the manifest has no objects"},
		"no YAML":                {"kind: [", "document 1 of the manifest is not valid YAML"},
		"binary":                 {"\x00\x01\xff\xfe\x7fELF", "not valid YAML"},
		"a text":                 {"hello", "is not an object of Kubernetes"},
		"half of a document":     {good[:len(good)/2] + "\n\t- {", "not valid YAML"},
		"an unknown kind":        {good + "---\napiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: x}\n", "the hub knows no kind Gadget of example.org/v1"},
		"an unknown field":       {strings.Replace(good, "replicas:", "replica:", 1), "replica: field not declared in schema"},
		"a wrong type":           {strings.Replace(good, "replicas: 1", "replicas: many", 1), "replicas"},
		"no object of namespace": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n", "is in no namespace"},
		"another namespace":      {strings.ReplaceAll(good, namespace, "kube-system"), "is in namespace kube-system"},
		"twice the same":         {good + "---\n" + good, "appears twice in the manifest"},
		"too many":               {configMaps("many", 101), "a workload has at most 100"},
		"too large":              {good + "---\n# " + strings.Repeat("x", 1<<20), "the manifest is larger than 1048576 bytes"},
		"too large in JSON":      {good + "---\n# " + strings.Repeat("\t", 1<<20-len(good)-100), "the request is larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f.write("wrong.yaml", test.manifest)
			began := time.Now()
			output, err := f.try(ctx, "deploy", namespace+"/web", "-f", filepath.Join(f.folder, "wrong.yaml"), "--clusters", members[0].as)
			if err == nil || !strings.Contains(output, test.says) {
				t.Errorf("says %.400q, want %q in it", output, test.says)
			}
			if elapsed := time.Since(began); elapsed > refusedWithin {
				t.Errorf("it took %v", elapsed)
			}
		})
	}
	if after := written(ctx, t); after != before {
		t.Errorf("refused manifests have changed\n%sto\n%s", before, after)
	}
	if _, err := hub.now(ctx, namespace, "web"); err == nil {
		t.Error("the hub has a Deployment that was refused")
	}
}
