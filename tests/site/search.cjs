// Answers queries as the site's search box does: with the built site's own search worker and index. Prints JSON, by query.
const fs = require("fs")
const path = require("path")

const [site, ...queries] = process.argv.slice(2)
const folder = path.join(site, "assets/javascripts/workers")
const worker = fs.readdirSync(folder).find(name => /^search\..*\.js$/.test(name))
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf-8"))
const SETUP = 0, QUERY = 2 // kinds of messages to the worker

const answers = []
global.self = { postMessage: message => answers.push(message) }
eval(fs.readFileSync(path.join(folder, worker), "utf-8"))

const ask = async (type, data) => {
  self.onmessage({ data: { type, data } })
  while (!answers.length) await new Promise(setImmediate)
  return answers.shift().data
}

const main = async () => {
  await ask(SETUP, index)
  const found = {}
  for (const input of queries)
    found[input] = (await ask(QUERY, { input })).items.map(item => index.items[item.id].location)
  console.log(JSON.stringify(found))
}

main()
