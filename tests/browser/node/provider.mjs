// A provider of OpenID Connect for tests: whoever says a name is them; who begins with "on-call" is in that group.
import { createServer } from "node:http";
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { Provider } = await import(require.resolve("oidc-provider"));

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "amends", client_secret: "a secret of the tests", redirect_uris: [process.argv[3]] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "email", "groups"],
    conformIdTokenClaims: false,
    loadExistingGrant: async (context) => {
      const { client, session, provider: own } = context.oidc;
      const grant = new own.Grant({ clientId: client.clientId, accountId: session.accountId });
      grant.addOIDCScope("openid email groups");
      await grant.save();
      return grant;
    },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: `${id}@example.com`,
        email_verified: !id.startsWith("unverified"),
        groups: id.startsWith("on-call") ? ["everybody", "on-call"] : ["everybody"],
      }),
    }),
  });
  server.on("request", provider.callback());
  process.stdout.write(`${issuer}\n`);
});
