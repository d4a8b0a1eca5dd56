// A provider of OpenID Connect for tests: whoever says a name is them; who begins with "on-call" is in that group, until
// somebody has asked for /left/NAME. It tells its client of each logout.
import { createServer } from "node:http";
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { Provider } = await import(require.resolve("oidc-provider"));

const server = createServer();
const left = new Set();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "amends",
        client_secret: "a secret of the tests",
        redirect_uris: [process.argv[3]],
        backchannel_logout_uri: process.argv[3].replace("/back", "/out"),
        backchannel_logout_session_required: true,
      },
    ],
    features: { backchannelLogout: { enabled: true } },
    fetch: (url, { dispatcher, ...options }) => fetch(url, options), // it reaches nobody on loopback by itself
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
        groups: id.startsWith("on-call") && !left.has(id) ? ["everybody", "on-call"] : ["everybody"],
      }),
    }),
  });
  provider.on("backchannel.error", (_, error) => process.stderr.write(`${error.stack}\n`));
  const answer = provider.callback();
  server.on("request", (request, response) => {
    if (!request.url.startsWith("/left/")) return answer(request, response);
    left.add(request.url.slice("/left/".length));
    return response.end();
  });
  process.stdout.write(`${issuer}\n`);
});
