// Users and permissions (ACLs).

import { html, useSession, useState, useWrites } from "../core/view.js";
import { api, ask, path } from "../core/request.js";
import { Page, Section, Status, Tabs } from "../core/parts.js";
import { PagedList } from "../core/table.js";
import { ChangeDialog, Check, Choice, DialogButton, Field } from "../core/dialogs.js";

const RESOURCES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"];
const OPERATIONS = ["ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"];
const inWords = (name) => name.toLowerCase().replaceAll("_", " ");
const same = (names) => names.map((name) => [name, inWords(name)]);

function CreateUser({ close, reload }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [isSuperuser, setSuperuser] = useState(false);
  const run = () => ask(path(["v1", "security", "users"]), { method: "POST", body: { name, password, ...(isSuperuser ? { is_superuser: true } : {}) } });
  return html`<${ChangeDialog} title="Create a user" label="Create" run=${run} isReady=${name !== "" && password !== ""} onClose=${close} onDone=${reload}>
    <${Field} label="Name" value=${name} set=${setName} required />
    <${Field} label="Password" type="password" autocomplete="new-password" value=${password} set=${setPassword} required />
    <${Check} label="Superuser: may do everything, ACLs do not apply" value=${isSuperuser} set=${setSuperuser} /><//>`;
}

function ChangePassword({ name, close }) {
  const [password, setPassword] = useState("");
  const run = () => ask(path(["v1", "security", "users", name, "password"]), { method: "PUT", body: { password } });
  return html`<${ChangeDialog} title=${`Password of ${name}`} label="Change" run=${run} isReady=${password !== ""} onClose=${close}>
    <${Field} label="New password" type="password" autocomplete="new-password" value=${password} set=${setPassword} required /><//>`;
}

const DeleteUser = ({ name, close, reload }) => html`<${ChangeDialog} title=${`Delete user ${name}`} label="Delete the user" name=${name} onClose=${close} onDone=${reload}
  run=${() => ask(path(["v1", "security", "users", name]), { method: "DELETE" })}><p>The user cannot log in any more. Its ACLs stay.</p><//>`;

function Users() {
  const mayWrite = useWrites("alter_cluster");
  const [reloads, setReloads] = useState(0);
  const reload = () => setReloads((value) => value + 1);
  return html`<${Section} title="Users" actions=${mayWrite && html`<${DialogButton} label="Create a user">${(close) => html`<${CreateUser} close=${close} reload=${reload} />`}<//>`}>
    <${PagedList} request=${(list) => api(["users"], { filter: list.filter, after: list.after })} field="users" caption="Users" reloadKey=${reloads} rowKey=${(row) => row.name}
      empty="There are no users: the listeners have no logins." columns=${[
        { title: "User", isHeader: true, cell: (row) => html`<span class="name">${row.name}</span>` },
        { title: "Role", cell: (row) => (row.is_superuser ? html`<${Status} kind="warn">superuser<//>` : html`<span class="muted">by ACLs</span>`) },
        { title: "Logins", cell: (row) => row.mechanisms.join(", ") || "–" },
        ...(mayWrite ? [{ title: "Actions", cell: (row) => html`<span class="actions">
          <${DialogButton} label="Password" name=${`of ${row.name}`}>${(close) => html`<${ChangePassword} name=${row.name} close=${close} />`}<//>
          <${DialogButton} label="Delete" name=${row.name} isDangerous=${true}>${(close) => html`<${DeleteUser} name=${row.name} close=${close} reload=${reload} />`}<//></span>` }] : []),
      ]} /><//>`;
}

function CreateAcl({ close, reload }) {
  const [resourceType, setResourceType] = useState("TOPIC");
  const [resourceName, setResourceName] = useState("");
  const [patternType, setPatternType] = useState("LITERAL");
  const [principal, setPrincipal] = useState("User:");
  const [host, setHost] = useState("*");
  const [operation, setOperation] = useState("READ");
  const [permission, setPermission] = useState("ALLOW");
  const run = () => ask(path(["v1", "security", "acls"]), {
    method: "POST",
    body: { acls: [{ resource_type: resourceType, resource_name: resourceName, pattern_type: patternType, principal, host, operation, permission }] },
  });
  return html`<${ChangeDialog} title="Create an ACL" label="Create" run=${run} isReady=${resourceName !== "" && principal !== ""} onClose=${close} onDone=${reload}>
    <${Choice} label="Permission" value=${permission} set=${setPermission} options=${same(["ALLOW", "DENY"])} />
    <${Field} label="Principal" value=${principal} set=${setPrincipal} hint="User:name, or User:* for everybody" required />
    <${Field} label="Host" value=${host} set=${setHost} hint="* for any" required />
    <${Choice} label="Operation" value=${operation} set=${setOperation} options=${same(OPERATIONS)} />
    <${Choice} label="Kind of resource" value=${resourceType} set=${setResourceType} options=${same(RESOURCES)} />
    <${Field} label="Name of the resource" value=${resourceName} set=${setResourceName} hint="for the cluster: kafka-cluster" required />
    <${Choice} label="The name is" value=${patternType} set=${setPatternType} options=${[["LITERAL", "the whole name (* for all)"], ["PREFIXED", "the beginning of names"]]} /><//>`;
}

const DeleteAcl = ({ acl, close, reload }) => html`<${ChangeDialog} title="Delete an ACL" label="Delete the ACL" name=${acl.principal} onClose=${close} onDone=${reload}
  run=${() => ask(path(["v1", "security", "acls"], acl), { method: "DELETE" })}>
  <p><b>${inWords(acl.permission)}</b> ${inWords(acl.operation)} on ${inWords(acl.resource_type)} <span class="name">${acl.resource_name}</span> to <span class="name">${acl.principal}</span> from ${acl.host}</p><//>`;

function Acls() {
  const mayWrite = useWrites("alter_cluster");
  const session = useSession();
  const [reloads, setReloads] = useState(0);
  const reload = () => setReloads((value) => value + 1);
  return html`<${Section} title="ACLs" actions=${mayWrite && html`<${DialogButton} label="Create an ACL">${(close) => html`<${CreateAcl} close=${close} reload=${reload} />`}<//>`}>
    ${session && !session.has_authorization && html`<p class="notice warn"><${Status} kind="warn">ACLs are not checked<//> The broker runs without authorization: everybody may do everything.</p>`}
    <${PagedList} request=${(list) => api(["acls"], { filter: list.filter, after: list.after })} field="acls" caption="ACLs" filterLabel="Filter by principal or resource" reloadKey=${reloads}
      rowKey=${(row) => Object.values(row).join("\n")} empty="There are no ACLs: only superusers may do anything where authorization is on." columns=${[
        { title: "Principal", isHeader: true, cell: (row) => html`<span class="name">${row.principal}</span>` },
        { title: "Permission", cell: (row) => html`<${Status} kind=${row.permission === "DENY" ? "bad" : "ok"}>${inWords(row.permission)}<//>` },
        { title: "Operation", cell: (row) => inWords(row.operation) },
        { title: "Resource", cell: (row) => html`${inWords(row.resource_type)} <span class="name">${row.resource_name}</span>${row.pattern_type === "PREFIXED" && html` <span class="tag">and names that begin so</span>`}` },
        { title: "Host", cell: (row) => row.host },
        ...(mayWrite ? [{ title: "Actions", cell: (row) => html`<${DialogButton} label="Delete" name=${`ACL of ${row.principal} on ${row.resource_name}`} isDangerous=${true}>${(close) =>
          html`<${DeleteAcl} acl=${row} close=${close} reload=${reload} />`}<//>` }] : []),
      ]} /><//>`;
}

export function SecurityPage({ tab }) {
  return html`<${Page} title="Users and ACLs" focusKey=${`security ${tab}`}>
    <${Tabs} label="Users and ACLs" items=${[["Users", "#/security/users", tab !== "acls"], ["ACLs", "#/security/acls", tab === "acls"]]} />
    ${tab === "acls" ? html`<${Acls} />` : html`<${Users} />`}<//>`;
}
