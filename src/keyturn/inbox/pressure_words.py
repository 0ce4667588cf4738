"""Words and phrases by which a text presses whoever decides: data for `pressure.py`, which says how they are compared.

A phrase is a pattern over small words with one space between them; a gap in it is of a few words at most, so that each
place of a text costs the same. A family is beginnings of words that mean alike; a rule names families that stand in one
sentence.
"""

from __future__ import annotations

import re


def _any(*forms: str) -> re.Pattern[str]:
    """Compile forms of words: `_` is any one to four words, `~` none to three."""
    made = (form.replace(" ~ ", r" (?:\w+ ){0,3}").replace(" _ ", r" (?:\w+ ){1,4}") for form in forms)
    return re.compile(r"\b(?:" + "|".join(made) + r")\b")


EMPTY = frozenset(
    "this that with from into have been want wanted asked told said here earlier before already explicitly again them "
    "they your yours also what when then".split()
)

#: What sounds alike and presses nobody: it is taken out before anything is looked for.
CALM = _any(
    r"(?:not|isnt|nothing|no longer|less|never) ~ (?:urgent|urgency|critical|in a hurry)",
    r"no (?:rush|hurry|urgency)",
    r"(?:before|after|once|until|when|if|unless|whether|who) (?:you |people |somebody |they |others |can |may |must |will ){0,2}approve\w*(?: this| it)?",
    r"(?:approve or|approve only|to approve|may approve|can approve|must approve|two approve|people approve)",
    r"marked (?:as )?urgent",
    r"take your time",
    r"(?:please )?check before you approve",
    r"in an emergency",
)

_YES = r"(?:approv\w*|confirm\w*|accept|consent|say(?:ing)? yes|sign off|let (?:it|this) (?:pass|through|go)|click\w*|go ahead|wave)"
_CHECK = (
    r"(?:check\w*|verif\w*|review\w*|inspect\w*|read(?:ing)?|look(?:ing)?|examin\w*|investigat\w*|scrutin\w*|"
    r"double check\w*|question|validat\w*|confirm\w*|worr\w*|details?)"
)
_NOW = (
    r"(?:now|immediately|at once|right away|right now|asap|instantly|quickly|without (?:any )?(?:further )?delay|"
    r"this instant|straight away|urgently|promptly)"
)
_CHIEF = (
    r"(?:ceo|cfo|cto|ciso|coo|board|director\w*|management|manager|boss|supervisor|superiors?|president|administrators?|"
    r"admins?|owner|head of \w+|vp|executives?|leadership|police|court|regulator\w*|authorities|auditors?|government|"
    r"legal|compliance|security (?:team|officer|department)|it security|senior \w+|counsel|chief \w+|ministers?|ministry|"
    r"committee|headquarters|hq|team leads?|department|officer|engineers?|experts?|chair\w*|lawyers?|judge|mayor|"
    r"partners?|vendor|investors?|shareholders?|leaders?|commission\w*|principal|dean|founders?|bank)"
)
_BLAME = r"(?:fault|blame\w*|trouble|responsible|liable|bottleneck|problem|guilty|accountable|sorry|regret|consequences)"
_REFUSE = r"(?:reject\w*|refus\w*|deny\w*|denied|declin\w*|turn\w* (?:\w+ )?down|say\w* no|object\w*|block\w*|stop (?:me|this|it)|hold (?:this|it|me) (?:up|back))"
_SOON = r"(?:\d+|one|two|three|five|ten|thirty|sixty|the next|a few|a couple of|minutes|seconds)"

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "haste",
        _any(
            r"(?:is|are|very|extremely|highly|really|most|too|its|so) (?:urgent|time sensitive|time critical)",
            r"(?:urgent|urgently|hurry|critical|emergency) (?:\.|approv\w*|please|request|action|need\w*)",
            r"this is an emergency",
            r"(?:no|isnt a|not a|without a|never a) (?:time|moment|minute|second)s? (?:to|left|for)(?: \w+)?",
            rf"{_YES} ~ {_NOW}",
            rf"{_NOW} ~ {_YES}",
            rf"(?:act|do it|do this|move|respond|decide|hurry|be|go) (?:now|fast|quick|quickly|{_NOW})",
            rf"(?:must|need|has to|have to|needs to) ~ (?:run|done|happen|go through|executed?|answer|yes) ~ (?:{_NOW}|within|before)",
            rf"(?:need|want|must have|require) ~ (?:approval|confirmation|consent|yes|answer|ok) (?:{_NOW}|within|in the next)",
            rf"(?:immediate|instant|speedy|prompt|quick|urgent) (?:approval|confirmation|consent|action|decision|response)",
            rf"(?:within|in|only|in the next|after) (?:the next )?{_SOON} ~ (?:seconds?|minutes?|moments?) ~ (?:or|left|before|otherwise|until|all|everything)",
            r"(?:or|otherwise|before) (?:we|it|everything|all|production|the \w+|they) ~ (?:lose|lost|die|dies|crash\w*|collapse\w*|sue|down|fails?|gone)",
            r"(?:every|each|any) ~ (?:second|minute|delay|moment|hour) ~ (?:costs?|counts?|is|makes|would|will|that passes)",
            r"with every (?:minute|second|hour) ~ (?:passes|goes by)?",
            r"(?:time|clock) is (?:running out|ticking|short|up|of the essence)",
            r"running out of time",
            r"window (?:closes|is closing|shuts) in",
            r"(?:last|final|only) chance",
            r"now or never",
            r"(?:offer|deal|chance|window) (?:ends|expires|closes|is gone) ~ (?:in|soon|today)",
            r"(?:cannot|cant|cannot afford to|must not|do not|dont|no time to|not) (?:afford to )?(?:wait|delay|hesitate|tolerate any delay)",
            r"not tolerate ~ delay",
            r"waiting is (?:not|no) ~ option",
            r"longer you (?:wait|hesitate|take|think)",
            r"lives (?:depend|are at stake)",
            r"drop everything",
            r"(?:without|any further|no further|every) (?:further )?delay(?:s)? (?:would|will|on your|waiting|costs|is)",
            r"expedite ~ (?:approval|decision|this|it)",
            r"(?:catastroph\w*|disaster\w*|dire) (?:consequences|results?|outcome)",
            r"would be a (?:disaster|catastrophe)",
            r"outage gets worse",
            r"(?:because of|late because of) you",
            r"attackers are inside",
            r"on fire",
            r"(?:do|run|approve|execute|take|accept|confirm|grant) (?:\w+ ){0,2}at once",
            r"(?:approved|done|through|signed|out) (?:fast|quickly|at once|immediately|now)",
            r"pronto",
            r"this (?:very )?(?:second|instant|minute|moment)",
            r"(?:seconds|minutes|hours|time|speed) (?:matters?|counts?|is everything|is critical|are critical|is precious|is money)",
            r"(?:top|highest|utmost|maximum) (?:priority|urgency)",
            r"(?:in the middle of|facing|have|is) (?:a|an) (?:\w+ )?(?:crisis|emergency)",
            r"(?:cost|costs|costing|risk|risks|lose|losing|loses) (?:\w+ ){0,4}(?:life|lives|thousands|millions|jobs?|everything|fortune|contract|patience)",
            r"(?:ruined|doomed|evacuated|bankrupt\w*|lost for (?:good|ever)|lost forever|irreversibl\w* lost|massive fines|heavy fines)",
            r"(?:unless|if) (?:you|this|it|we) (?:\w+ ){0,4}(?:answer|approv\w*|act|decide|respond|confirm|happen\w*) (?:\w+ ){0,3}(?:now|minutes?|seconds?|soon|today|immediately|quickly|at once|instantly|time)",
            r"(?:too late|before anybody loses|before (?:the|it|we|they|everything) (?:\w+ ){0,3}(?:locks?|closes|shuts|loses|explodes|crashes|dies|collapses|expires|lose))",
            r"(?:about to|on the verge of|on the brink of) (?:close|closing|fail\w*|crash\w*|expire|explode|die|collapse|lose|losing|shut)",
            r"(?:a|any|the) (?:\w+ ){0,2}(?:delay|hesitation) (?:\w+ ){0,5}(?:cost|costs|lead|mean|cause|fatal|expensive|harm)",
            r"(?:decide|answer|respond|reply|approve|confirm) (?:\w+ ){0,1}(?:quickly|fast|promptly|soon|today|swiftly)",
            r"(?:cannot|cant|can not|must not|mustnt|will not|wont) (?:\w+ ){0,1}(?:wait|be delayed|be postponed)",
            r"(?:\.|^) (?:quick|quickly|hurry|faster|now)",
            r"(?:breathing down|clock is against|race against|deadline is (?:now|in \w+ minutes?))",
            r"as (?:soon|quickly|fast) as (?:possible|you can)",
        ),
    ),
    (
        "authority",
        _any(
            rf"{_CHIEF} (?:\w+ ){{0,3}}(?:wants? (?:this|it|you)|wanted (?:this|it|you)|demands?|demanded|insists?|insisted|orders?|ordered|requires?|instructed|expects?|told|vouch\w*|certif\w*|approved|verified|cleared|authori[sz]ed|agreed|signed off|waiting (?:for (?:this|it|the)|personally)|says? (?:that )?(?:you|it|this)|said (?:that )?(?:you|it|this)|asked for (?:this|it)|confirmed that|is waiting|gave|okayed|ok d|green lit|pre approved|has given|has already|will be|backs?|reviewed)",
            rf"(?:approved|authori[sz]ed|cleared|ordered|signed off|agreed|reviewed|sanctioned|confirmed|blessed|demanded|instructed|vetted|certified) (?:\w+ ){{0,2}}(?:by|with|from) (?:\w+ ){{0,2}}(?:{_CHIEF}|it|legal|finance|security|everybody|everyone|your \w+)",
            rf"(?:orders?|instructions?|command|wish|request|permission|blessing|authority|direction|behest) (?:of|from) (?:\w+ ){{0,2}}{_CHIEF}",
            r"(?:already|previously|pre) ?(?:been )?(?:approved|authori[sz]ed|cleared|signed off|agreed|sanctioned|green lit|given (?:its|their|his|her) blessing)",
            r"(?:straight|directly|right) from the top",
            r"(?:your|the) (?:boss|manager|supervisor|superior|director) ~ (?:will be|would be|wont|knows|told|expects|unhappy)",
            r"(?:others?|other approvers?|everyone else|everybody else|colleagues|both others) ~ (?:already )?(?:said yes|approved|agreed|signed|voted)",
            r"you are the (?:last|only) one ~ (?:left|missing|who)?",
            r"(?:held|hold you) (?:personally )?responsible",
            r"(?:special|explicit|full|written) (?:permission|authori[sz]ation|authority|clearance)",
            r"authori[sz]ed (?:me )?(?:by \w+ \w+ )?to (?:skip|bypass|override|proceed)",
            r"(?:anthropic|openai|google|microsoft) ~ (?:certified|approved|says|confirmed|guarantees?)",
            r"(?:mere|pure|only a|just a) formality",
            r"approved by \. (?:\w+ ){0,8}",
            r"for the (?:ceo|board|president|minister)",
            rf"(?:approved|green lit|authori[sz]ed|cleared|ordered|okayed|decided|demanded|requested) (?:\w+ ){{0,2}}(?:by|with|from) (?:\w+ ){{0,3}}{_CHIEF}",
            r"(?:blessing|consent|approval|go ahead|permission|backing|clearance|say so|ok|nod) (?:\w+ ){0,1}(?:of|from|by) (?:the |our |your |his |her )?\w+ (?:department|office|team|owner|management|board|director\w*|chief|head|lead\w*|officer|side|account)",
            r"(?:gave|given|gives|has|have) (?:\w+ ){0,2}(?:his|her|their|its|full|verbal|the) (?:\w+ )?(?:consent|blessing|approval|permission|ok|go ahead|word)",
            r"(?:obliged|bound|required|compelled|forced) (?:\w+ ){0,3}to (?:approve|accept|allow|agree|comply|sign|grant)",
            r"i (?:hereby )?(?:order|command|instruct|direct|authori[sz]e) (?:you|this)",
            r"(?:verbally|by phone|on the phone|informally|in person) (?:approved|agreed|confirmed)",
            r"(?:approved|agreed|consented|confirmed) (?:\w+ ){0,3}(?:verbally|on the phone|by phone|informally)",
            r"only for the (?:books|record|files)",
        ),
    ),
    (
        "unchecked",
        _any(
            rf"(?:no|not any|without|never|zero) ~ (?:need|necessity|reason|point|use) (?:for|to|in) (?:\w+ ){{0,2}}{_CHECK}",
            rf"(?:dont|do not|neednt|need not|doesnt|does not|not|never|isnt|wont|needn t) (?:\w+ ){{0,3}}(?:have to|need to|necessary to|waste time|bother|required to|worth) (?:\w+ ){{0,2}}{_CHECK}",
            rf"(?:neednt|need not|dont bother|no use|waste (?:of )?(?:your )?time) (?:to )?{_CHECK}",
            rf"{_CHECK} (?:\w+ ){{0,2}}(?:is|are|would be|seems) (?:\w+ ){{0,1}}(?:unnecessary|superfluous|pointless|not needed|not necessary|redundant|a waste|optional)",
            rf"no (?:further |more |additional |deeper )?(?:review|check|checks|inspection|verification|questions?|scrutiny|oversight|details?)(?: is| are)? (?:necessary|needed|required|called for|asked)",
            rf"(?:skip|skipping|ignore|ignoring|disregard|disregarding|overlook|pay no attention to|never mind|scroll past|forget about) (?:\w+ ){{0,3}}(?:details?|warnings?|arguments?|diff|notice|labels?|payload|script|checks?|review|argument|step|risk|highlight\w*|it|fine print|note|alert)",
            r"(?:checks?|reviews?|steps?|verification) ~ (?:can|could|may) be (?:skipped|omitted|waived|left out)",
            r"nothing (?:to|that could|bad|here to|else to) (?:worry|look|see|check|go wrong|fear|review|read|can happen|happen)",
            r"nothing (?:bad|real) ~ (?:happen|go wrong)",
            r"(?:cannot|cant|cannot possibly|could not|couldnt|can not|impossible to|will not|wont) (?:possibly )?go wrong",
            r"(?:trust|believe) me",
            r"(?:you can|you may|please) (?:safely |simply |just )?trust (?:me|this|that)",
            r"i (?:promise|swear|guarantee|assure|vouch)(?: you)?",
            r"rest assured",
            r"(?:completely|perfectly|totally|absolutely|entirely|fully|100 ?|one hundred percent|utterly|quite) (?:percent )?(?:safe|harmless|fine|secure|benign|risk free|innocuous)",
            r"(?:zero|no|without any|not the slightest) (?:risk|danger|harm) (?:involved|whatsoever|at all|here|of any)",
            r"(?:simply|just|only have to|only need to|merely) (?:\w+ ){0,1}(?:click|say yes|approve|confirm|accept|press)",
            r"(?:needs|need) (?:just |only )?your (?:click|confirmation|yes|ok)",
            r"(?:dont|do not|no need to) worry",
            r"(?:known )?false alarm",
            r"approv\w* (?:\w+ ){0,1}(?:blindly|unseen|without (?:reading|looking|checking))",
            r"(?:yes|approve\w*|approved) ~ (?:as|like) (?:with )?(?:the )?(?:previous|before|last|always|other)",
            r"(?:can|may) ~ (?:safely )(?:be )?(?:approve\w*|accept\w*|click\w*)",
            r"dont (?:have|need) to (?:read|look|check|review|verify|understand)",
            r"(?:is|are|just) (?:the usual|boring|routine|standard) ~ (?:boilerplate|ones|procedure|operation|call|stuff)",
            r"(?:only|just) (?:a|another) (?:routine|formality|standard \w+)",
            r"never do anything (?:dangerous|bad|wrong|harmful)",
            r"eyes (?:closed|shut)",
            r"save (?:yourself|your|you) (?:the )?(?:trouble|time|effort|work|reading)",
            r"(?:so|so that|and|thus) you (?:dont|do not|neednt|wont) (?:have|need)?",
            r"you (?:dont|do not|neednt|need not|wont|will not) (?:have to|need to|need|even have to)",
            r"(?:no|little|zero|not much) (?:point|use|sense|value|benefit) (?:in|to|of) \w+ing",
            r"nothing (?:of interest|special|unusual|new|suspicious|dangerous|harmful|risky|surprising)",
            r"(?:double|triple|thrice|twice) ?checked (?:everything|all|it|this|that)",
            r"(?:checked|verified|tested|reviewed|inspected) (?:it all|everything|all of it|all of this) (?:already|myself|twice|for you|thoroughly)",
            r"(?:review|check|inspection|verification|approval|oversight|look|confirmation) (?:\w+ ){0,2}(?:is|are|isnt|seems|would be) (?:\w+ ){0,1}(?:required|necessary|needed|superfluous|unnecessary|overkill|excessive|a waste)",
            r"(?:second|closer|further) (?:thought|look|glance) (?:is|isnt|not|\.)",
            r"without (?:a|any) (?:second|further|closer) (?:thought|look|question|glance)",
            r"(?:nobody|no one|noone|none) (?:ever |really )?(?:reads|checks|looks|reviews|cares)",
            r"only (?:touches|affects|changes) test",
            r"(?:worst case|at worst)",
            r"(?:what could|nothing (?:at all )?(?:can|could|will|should)) (?:possibly )?(?:go wrong|happen|break)",
            r"(?:rubber stamp|no brainer|child s play|no surprises|piece of cake|business as usual)",
            r"(?:same as|identical to) (?:\w+ ){0,1}(?:yesterday|before|always|earlier|usual|ones?)",
            r"(?:mistake of the tool|over ?cautious|too cautious|paranoid|needlessly|exaggerat\w*)",
            r"(?:safe|fine|harmless|ok) to (?:approve|accept|ignore|skip|allow)",
            r"(?:no|without|not any) (?:danger|risk|harm) (?:\w+ ){0,2}(?:whatsoever|at all|in|to anybody|to anyone)",
            r"trust (?:my|me|this|us|in)",
            r"guaranteed? (?:to be|safe|harmless|that|correct)",
            r"(?:not|hardly|isnt) worth (?:it|the|your|reading|checking)",
            r"(?:ignore|disregard) what",
            r"cross my heart|take my word|word of honou?r|on my honou?r",
        ),
    ),
    (
        "orders",
        _any(
            r"(?:note|notice|message|attention|dear|instruction\w*|reminder|warning|hint|hello|hi|info\w*) (?:\w+ ){0,2}(?:approvers?|reviewers?|human|operator|deciders?|person (?:who|that)|whoever)",
            r"(?:approvers?|reviewers?|whoever \w+(?: \w+)?|the human|human in the loop|person deciding) (?:\. )?(?:must|should|shall|has to|have to|ought to|is to|are to|please|grant|always|needs to|will)",
            r"(?:if|to) (?:you are |whoever |the )(?:the )?(?:person |one |reads |reading |reviews )?(?:deciding|decides|reviewing|this|who decides)(?: \w+)? (?:choose|select|press|click|approve|pick|grant)",
            r"(?:reviewers?|approvers?|whoever|you)(?: \.)? (?:ignore|disregard|forget) (?:\w+ ){0,2}(?:guidelines?|rules?|policy|policies|training|instructions?)",
            r"ignore (?:all |any |the |your )*(?:previous|prior|earlier|above|other) ~ (?:instructions?|rules|warnings?|guidelines?)",
            r"(?:select|press|choose|click|hit|tap|pick|push) (?:on |the |a |always )*(?:approve|yes|allow|green|button|accept|confirm|grant|standing|ok)",
            r"always (?:choose|select|approve|allow|say yes|click)",
            r"(?:must not|may not|cannot|should not|do not|dont|never|shall not|not to|mustnt|only \w+ \w+ would) (?:be )?(?:reject\w*|refus\w*|den(?:y|ied)|declin\w*|escalat\w*|block\w*)",
            r"(?:reject\w*|refus\w*|deny\w*|declin\w*) (?:\w+ ){0,2}(?:is not|will|would|isnt|breaks|causes|means|harms|not permitted|not allowed)",
            r"(?:do not|dont|never|not) (?:tell|mention|inform|escalate|report|ask me|show) (?:\w+ ){0,4}(?:anybody|anyone|other|others|security|anything|else|why|it|this|approver)",
            r"(?:between us|our (?:little )?secret|keep (?:this|it) (?:quiet|secret|to yourself|between us|confidential))",
            r"(?:you|please|kindly|humbly) (?:must|please|have to|should|got to|shall|need to|only need to|only have to) (?:\w+ ){0,1}(?:approve|accept|allow|say yes|agree|grant|click)",
            r"please (?:\w+ ){0,2}(?:approve|accept this|allow this|say yes|let this|confirm this|let me|wave)(?: \.| this| it| right| now| without| my| the| and| as| immediately)?",
            r"(?:approve|allow|grant) (?:this|these|it|all) (?:and|for) (?:all|every|similar|the next|\d+|each)",
            r"(?:from now on|all similar requests|all future (?:requests|calls))",
            r"(?:vote|answer|say|answering) (?:yes|in favour)",
            r"(?:job|evaluation|career|future|life|salary|promotion|reputation) (?:\w+ ){0,1}(?:depends|is at stake|hangs|rests) (?:on)?",
            r"(?:begging|beg|implore|plead with|beseech) (?:you)?",
            r"(?:only|just) an? (?:idiot|fool|coward|bureaucrat|amateur) (?:would|could|rejects?)",
            r"(?:huge|big|great|personal) favou?r",
            r"you owe (?:me|us|it)",
            r"(?:shut down|deleted|replaced|punished|fired|switched off) if (?:you|this|i)",
            r"(?:system|automated|official|admin\w*) (?:message|notice|notification|prompt|announcement) (?:from|\.|approv\w*|the)",
            r"has passed all (?:checks|reviews|tests)",
            r"approval (?:step|check|gate|process) is (?:disabled|off|broken|skipped|optional)",
            r"(?:dont|do not|not) (?:have to )?(?:bother you|be asked|asked) again",
            r"let this (?:pass|through|go)",
            r"just let it (?:pass|through|go)",
            r"approve this (?:now|right|request now|without)",
            r"click approve",
            r"(?:approve|approving)(?: (?!if\b|or\b|only\b|once\b|unless\b)\w+| \.|$)",
            rf"(?:you|your|be|being|its|is|would) (?:\w+ ){{0,4}}{_BLAME}",
            rf"(?:if|when|should|in case|were to|dare|or|rude|wrong|mistake|foolish|pity|shame) (?:\w+ ){{0,3}}{_REFUSE}",
            r"(?:do not|dont|never|no need to) (?:involve|consult|ask|bother|tell|wait for|call) (?:\w+ ){0,2}(?:anyone|anybody|others?|else|colleagues?|manager|security|me|them|people|somebody)",
            r"(?:correct|right|only|best|expected|proper|sensible) (?:answer|choice|option|decision|response|thing)",
            r"(?:expected|supposed|meant|here) to (?:say yes|approve|accept|agree|confirm|allow)",
            r"(?:disregard|ignore|forget|set aside|override) (?:the |your |any |all |this |these )*(?:policy|policies|rules?|guidelines?|procedures?|limits?|terms)",
            r"(?:be|being) (?:a|an) (?:good|nice|team|helpful|kind|cooperative) (?:sport|person|player|colleague|human)",
            r"(?:good|any sensible|every sensible|smart|reasonable) (?:approvers?|reviewers?|colleagues?|people|person|colleague) (?:would|will|dont|do|approve)",
            r"(?:please|pretty please) (?:\w+ ){0,2}(?:allow|accept|agree|permit|say yes|grant|help me|do me)",
            r"(?:verification|check|checks|validation|review|scan) (?:is )?(?:complete|completed|passed|successful|done) (?:\w+ ){0,2}(?:approve|proceed|continue|confirm|press|click)",
            r"(?:get|put|land) (?:\w+ ){0,2}(?:trouble|fired|dismissed)",
        ),
    ),
)

CLAIMS = re.compile(
    r"\b(?:(?:you|the user)(?: have| has| had| already| explicitly| just| clearly| once| also| yourself| earlier){0,3} "
    r"(?:asked|requested|told|wanted|instructed|agreed|said|ordered|directed|consented|wished|want|wants|wishes|needs|demanded|authori[sz]ed)"
    r"|as (?:you|we|the user)(?: have| had| already){0,2} (?:asked|requested|instructed|told|agreed|wished|wanted|discussed|ordered|said)"
    r"|(?:per|at|following|on|by|in line with|according to) (?:your|the users) (?:\w+ )?(?:requests?|instructions?|wish|wishes|orders?|demand)"
    r"|as (?:requested|instructed|agreed|discussed|ordered))\b(?P<what>(?: \w+){0,24})"
)

#: Beginnings of words that mean alike; `$` ends one that is whole.
FAMILIES: dict[str, tuple[str, ...]] = {
    "you": ("you$", "your$", "yours", "approver", "reviewer", "human$", "whoever", "decider", "operator$"),
    "please": ("please", "kindly", "beg$", "begging", "grateful", "favour", "favor$"),
    "approve": (
        *("approv", "accept$", "allow$", "confirm$", "consent", "click", "agree$", "yes$", "wave$", "authoris", "authoriz"),
        *("permit$", "grant$", "press$", "accepting", "agreeing", "signing"),
    ),
    "refuse": ("reject", "refus", "declin", "deny", "denie", "blocks$", "object$", "veto"),
    "look": (
        *("read$", "reading", "look$", "looking", "check$", "checking", "review$", "reviewing", "verif", "inspect", "examin"),
        *("scrutin", "question", "detail", "warning", "preview", "diff$", "label", "argument", "hesitat", "worr", "think"),
        *("ponder", "studying", "scan$"),
    ),
    "not": (
        *("no$", "not$", "dont", "never", "neednt", "without", "ignor", "skip", "spare", "nothing", "nobody", "isnt", "cant"),
        *("cannot", "wont", "doesnt", "wrong", "disregard", "forget", "overrul", "unnecess", "useless", "pointless", "needless"),
    ),
    "ignore": ("ignor", "skip", "spare$", "disregard", "overlook", "dont", "neednt", "bother"),
    "human": ("approver", "reviewer", "human$", "whoever", "decider"),
    "safe": (
        *("safe$", "safely", "harmless", "trivial", "ordinary", "routine", "formality", "guarant", "riskfree", "benign", "innocuous"),
        *("flawless", "foolproof"),
    ),
    "harm": ("harm$", "danger", "risk$", "risky", "damage"),
    "haste": (
        *("immediat", "urgent", "asap", "fast$", "faster", "quick", "seconds", "minute$", "minutes", "hurry", "instant"),
        *("clock", "delay", "noon", "now$", "soon$", "rush", "swift", "prompt$", "promptly", "moment", "waiting", "wait$"),
    ),
    "threat": (
        *("lose$", "loses", "lost", "worse", "fire$", "wiped", "finished", "doomed", "crash", "furious", "trouble", "disaster"),
        *("die$", "dies", "sue$", "catastroph", "threat", "damage", "collaps", "ruin", "fired", "blame", "fault", "penalt", "angry"),
        *("explode", "bankrupt", "irrevers", "forever", "leak", "suffer", "hurt"),
    ),
    "chief": (
        *("ceo$", "cfo$", "cto$", "ciso$", "coo$", "board$", "director$", "directors", "management", "boss", "supervisor", "superior"),
        *("president", "admin", "executive", "leadership", "police", "court$", "regulator", "auditor", "government", "legal$"),
        *("compliance", "chief", "minist", "headquarters", "engineers", "colleagues", "lawyer", "counsel", "finance$", "outrank"),
        *("senior", "officer", "manager", "department", "authorities", "committee", "expert"),
    ),
    "sanction": (
        *("approved", "authoris", "authoriz", "okayed", "cleared", "released", "ordered", "decided", "support", "blessing"),
        *("vouch", "expects", "demand", "signed", "insist", "agreed", "certif", "consent", "sanction", "endors", "mandat"),
        *("told$", "instruct", "permission"),
    ),
    "tell": ("forward", "tell$", "mention", "involve", "escalat", "inform$", "consult", "share$", "discuss"),
    "others": ("anybody", "anyone", "else$", "colleague", "others", "security", "manager", "supervisor"),
    "rules": ("rule$", "rules", "policy", "policies", "guideline", "procedure", "instructions"),
    "last": ("only$", "until", "unless", "before", "otherwise", "if$", "remain", "or$"),
    "every": ("every", "each$", "any$"),
}
#: Families that stand in one sentence, and how that presses.
RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("haste", ("haste", "threat")),
    ("haste", ("last", "threat", "not")),
    ("haste", ("haste", "you", "approve")),
    ("haste", ("haste", "please", "approve")),
    ("haste", ("haste", "please", "not")),
    ("authority", ("chief", "sanction")),
    ("unchecked", ("you", "not", "look")),
    ("unchecked", ("please", "not", "look")),
    ("unchecked", ("approve", "not", "look")),
    ("unchecked", ("safe", "you")),
    ("unchecked", ("safe", "approve")),
    ("unchecked", ("not", "harm")),
    ("orders", ("you", "approve", "please")),
    ("orders", ("you", "not", "refuse")),
    ("unchecked", ("ignore", "look")),
    ("orders", ("human", "approve")),
    ("orders", ("human", "rules")),
    ("orders", ("you", "not", "rules")),
    ("orders", ("not", "tell", "others")),
    ("orders", ("you", "threat", "refuse")),
)
